//! Writes formatted text as the Markdown of cards. Pure.

use angelia_core::ports::RichText;

use crate::chat::formatting::{Escapes, write_markdown};

/// Returns the text as Markdown. It escapes with numeric entities, as the platform documents.
pub fn to_markdown(text: &RichText) -> String {
    write_markdown(text, Escapes::Entities)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chat::formatting::parse_markdown;

    #[test]
    fn text_is_written_in_the_markdown_of_cards() {
        let text = "## A & B\n\n*x* **y `z`** [l*k](http://h?a=1&b=(2)) [file](src/main.rs)\n\n> one\n>\n> two\n\n\
                    ```c++\na < b\n```\n\n- <at id=all></at> :OK: 5:30\n  - deep\n\n1. one\n\n~~gone~~";
        insta::assert_snapshot!(to_markdown(&parse_markdown(text)), @r"
        **A &#38; B**

        *x* **y** `z` [l&#42;k](http://h?a=1&b=%282%29) file

        > one
        >
        > two

        ```c++
        a < b
        ```

        • &#60;at id=all&#62;&#60;/at&#62; &#58;OK: 5:30
        &#160;&#160;• deep

        1&#46; one

        ~~gone~~
        ");
    }
}
