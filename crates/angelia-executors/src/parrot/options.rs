//! The parrot's arguments: the few of the protocol's flags that mean something to it.

use super::speech::new_id;

#[derive(Debug)]
pub(super) struct Options {
    /// The conversation's name: the one given, the one resumed, or a new one.
    pub(super) session: String,
    pub(super) model: String,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum BadArgument {
    #[error("unknown argument `{0}`; known are --session-id ID, --resume ID, --model NAME")]
    Unknown(String),
    #[error("`{0}` needs a value")]
    NoValue(String),
}

impl Options {
    /// The only model there is, until somebody asks for it by another name.
    pub(super) const MODEL: &str = "parrot";

    pub(super) fn read(arguments: impl IntoIterator<Item = String>) -> Result<Self, BadArgument> {
        let mut session = None;
        let mut resume = None;
        let mut model = None;
        let mut arguments = arguments.into_iter();
        while let Some(argument) = arguments.next() {
            let target = match argument.as_str() {
                "--session-id" => &mut session,
                "--resume" => &mut resume,
                "--model" => &mut model,
                _ => return Err(BadArgument::Unknown(argument)),
            };
            let value = arguments.next();
            *target = Some(value.ok_or(BadArgument::NoValue(argument))?);
        }
        Ok(Self {
            session: session.or(resume).unwrap_or_else(new_id),
            model: model.unwrap_or_else(|| Self::MODEL.to_owned()),
        })
    }
}
