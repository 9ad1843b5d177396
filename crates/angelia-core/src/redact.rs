//! placeholder
/// Takes secrets out of text.
#[derive(Clone, Debug, Default)]
pub struct Redactor {}
impl Redactor {
    /// Knows these values.
    pub fn new(_values: impl IntoIterator<Item = String>) -> Self {
        Self {}
    }

    /// The text with every secret masked.
    pub fn redact<'a>(&self, text: &'a str) -> std::borrow::Cow<'a, str> {
        text.into()
    }
}
