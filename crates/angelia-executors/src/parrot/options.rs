//! The parrot's arguments: the few of Claude Code's flags that it supports.

use uuid::Uuid;

#[derive(Debug)]
pub(super) struct ParrotOptions {
    /// The session id: the given one, the resumed one, or a new one.
    pub(super) session: String,
    pub(super) model: String,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum ArgumentError {
    #[error("unknown argument `{0}`; use --session-id ID, --resume ID or --model NAME")]
    Unknown(String),
    #[error("`{0}` needs a value")]
    NoValue(String),
}

impl ParrotOptions {
    /// The model's name, unless `--model` or `set_model` changes it.
    pub(super) const DEFAULT_MODEL: &str = "parrot";

    pub(super) fn read(arguments: impl IntoIterator<Item = String>) -> Result<Self, ArgumentError> {
        let mut session = None;
        let mut resume = None;
        let mut model = None;
        let mut arguments = arguments.into_iter();
        while let Some(argument) = arguments.next() {
            let target = match argument.as_str() {
                "--session-id" => &mut session,
                "--resume" => &mut resume,
                "--model" => &mut model,
                _ => return Err(ArgumentError::Unknown(argument)),
            };
            let value = arguments.next();
            *target = Some(value.ok_or(ArgumentError::NoValue(argument))?);
        }
        Ok(Self {
            session: session.or(resume).unwrap_or_else(|| Uuid::new_v4().to_string()),
            model: model.unwrap_or_else(|| Self::DEFAULT_MODEL.to_owned()),
        })
    }
}
