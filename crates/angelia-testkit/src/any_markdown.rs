//! Generates arbitrary Markdown, to test that a platform shows every character of it.

use angelia_core::ports::{OutgoingMessage, RichText};
use proptest::{collection::vec, prelude::*};

/// Generates Markdown with everything that the platforms' dialects stumble over: their special
/// characters, unclosed blocks, emphasis without surrounding spaces, addresses with brackets.
pub fn any_markdown() -> impl Strategy<Value = String> {
    let block = prop::sample::select(vec![
        "\n\n",
        "```py\n",
        "```\n",
        "> ",
        "# h\n",
        "| a | <b> |\n|---|---|\n| c | `d` |\n",
        "- **x _y_** [l*k](http://u?a=1&b=(2)) [f](src/a.rs)\n",
        "  - deep\n",
        "7. seven\n",
    ]);
    let span = prop::sample::select(vec![
        "~~`a<b`~~ ",
        "~~`a*b`~~ ",
        "`` ` `` `x``y`",
        "***a***b*c*",
        "***all*** **a***b*",
        "a**b**c*d*中**“文”**字",
        "<@123>",
        "**http://a_b.c/*d*** ",
        "[http://x.y](http://z.y)",
    ]);
    let part = prop_oneof![
        2 => "\\PC{0,60}",
        3 => "[a-z0-9 <>&\"'*_~`#|:+=.!$\\[\\]()\\\\-]{0,60}\n",
        1 => "[*_~`a ]{0,20}",
        5 => block.prop_map(str::to_owned),
        4 => span.prop_map(str::to_owned),
        1 => Just("**a** b ".repeat(300)),
    ];
    vec(part, 0..16).prop_map(|parts| parts.concat())
}

/// Returns the characters that a person sees, without spaces, because platforms change those
/// between words.
pub fn without_spaces(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace()).collect()
}

/// Returns a part of a long answer as a message.
pub fn part_message(index: usize, part: &RichText) -> OutgoingMessage {
    OutgoingMessage {
        id: index.to_string().into(),
        text: part.visible_text().into(),
        rich: Some(part.clone()),
        ..OutgoingMessage::default()
    }
}
