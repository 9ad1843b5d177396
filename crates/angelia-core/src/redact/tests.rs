//! No secret survives: in one piece, in any pieces, and with or without the keyword search.

use proptest::{collection::vec, prelude::*, sample::select};

use super::*;

const KNOWN: [&str; 4] =
    ["correct horse battery", "hunter2-hunter2", "hunter2-hunter2-hunter2", "pässwörd世界"];

/// Before, secret, after: the secret must be masked, and the text around it must stay.
const SHAPED: [(&str, &str, &str); 28] = [
    ("key ", "sk-ant-api03-abcDEF_123", " rejected"),
    ("key ", "sk-proj-abcdefghij0123456789", ", rejected"),
    ("remote: ", "ghp_abcdefghijklmnopqrst0123456789", ""),
    ("remote: ", "gho_abcdefghijklmnopqrst0123456789", "!"),
    ("", "github_pat_11ABCDEFG0abcdefghijklmnop", " is bad"),
    ("slack ", "xoxb-123456789012-abcdef", ""),
    ("aws ", "AKIAIOSFODNN7EXAMPLE", " denied"),
    ("google ", "AIzaSyA-1234567890abcdefghijklmnopqrstu", ""),
    ("jwt ", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2ln_-", " ok"),
    ("Bearer ", "abcdefghijklmnop", " sent"),
    ("curl -H 'authorization: ", "Basic dXNlcjpwYXNz", "'"),
    (r#"{"Authorization":""#, "Basic dXNlcjpwYXNz", r#""}"#),
    ("PASSWORD=", "p@ss,w0rd;x", " next"),
    ("db_password: ", "x", ""),
    (r#"{"password":""#, r#"two words, \" and more"#, r#"","a":1}"#),
    (r#"{\"token\":\""#, "two words", r#"\",\"a\":1}"#),
    ("client_secret='", "it is long", "'"),
    ("?access_key=", "abc", "&b=1"),
    ("API-Key => ", "abc", ""),
    ("x-api-key : ", "abc", ""),
    ("https://", "user:pa:ss", "@host/path"),
    ("clone https://", "token", "@host"),
    ("/etc/passwd: ", "password=abc", ""),
    ("/run/secrets/token: ", "hunter2", ""),
    ("/run/secrets/token:", "letters", ""),
    ("data/token: ", "letters", ""),
    ("a ", "-----BEGIN RSA PRIVATE KEY-----\nMIIE+/=\nabc\n-----END RSA PRIVATE KEY-----", " b\nc"),
    ("", r"-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----", r"\n"),
];

const CLEAN: [&str; 15] = [
    "",
    "plain words, a path /usr/bin/env and a url https://host/a@b?q=1",
    "input_tokens: 12, max_tokens=4096, the secrets of the keyboard",
    "task-force-with-a-rather-long-hyphenated-name",
    "the risk-assessment-of-something-very-long-indeed",
    "bearer of news; authorization was refused",
    "mailto:someone@example.com",
    "asia AKIA eyJ sk- ghp_ xoxb- AIza",
    "-----BEGIN CERTIFICATE-----\nMIIE\n-----END CERTIFICATE-----",
    "password= ",
    "[redacted] and password=[redacted]",
    "世界 👩‍💻 ::// @",
    "declined: read /etc/passwd: nobody is there to approve it",
    "~/.angelia/token: Permission denied (os error 13)",
    "cannot read `./my.token`: no; /srv/api_key: /srv/api_key is protected",
];

fn redactor() -> Redactor {
    Redactor::new(KNOWN)
}

#[test]
fn shapes_go_and_their_surroundings_stay() {
    for (before, secret, after) in SHAPED {
        let text = format!("{before}{secret}{after}");
        let expected = format!("{before}{MASK}{after}");
        assert_eq!(redactor().redact(&text), expected, "{text}");
    }
}

#[test]
fn known_values_go() {
    let redactor = redactor();
    let text = "a hunter2-hunter2 b, hunter2-hunter2-hunter2pässwörd世界.";
    assert_eq!(redactor.redact(text), "a [redacted] b, [redacted][redacted].");
    // Too short to be known, so not masked.
    assert_eq!(Redactor::new(["short"]).redact("short"), "short");
    let lines = Redactor::new(["first-line-of-it\nsecond-line-of-it"]);
    assert_eq!(
        lines.redact("first-line-of-it\nand second-line-of-it"),
        "[redacted]\nand [redacted]"
    );
    assert!(!format!("{redactor:?}").contains("hunter2"));
}

#[test]
fn clean_text_is_not_copied() {
    for text in CLEAN {
        let redacted = redactor().redact(text);
        assert!(matches!(redacted, Cow::Borrowed(_)), "{redacted}");
        assert_eq!(redacted, text);
    }
}

#[test]
fn a_key_that_does_not_end_hides_what_a_key_could_hold() {
    let line = "MIIE0123456789\n";
    let text = format!("-----BEGIN PRIVATE KEY-----\n{}", line.repeat(20_000));
    let redacted = redactor().redact(&text);
    assert!(redacted.starts_with(&format!("{MASK}{line}")));
    assert!(redacted.len() < text.len() - 16_000);
}

#[test]
fn a_value_like_the_mask_does_no_harm() {
    let redactor = Redactor::new(["redacted]", "[redacted", "xxxx[red", "redacted"]);
    let once = redactor.redact("xxxx[redacted] xxxx[red redacted");
    assert_eq!(redactor.redact(&once), once);
}

/// A line longer than the held-back length, with a secret at any position.
#[test]
fn a_very_long_line_gives_away_nothing() {
    let long_secret = format!("token={}", "s3cret".repeat(15_000));
    for filler in [1, 32_500, 32_765, 33_000, 70_000] {
        for secret in ["hunter2-hunter2-hunter2", "password=s3cret", &long_secret] {
            let text = format!("{}{secret} {}", "a ".repeat(filler), "b ".repeat(35_000));
            for size in [4096, 65_537] {
                let shown = in_pieces(&redactor(), &cut(&text, size));
                assert!(!shown.contains("s3cret") && !shown.contains("hunter2"));
                assert!(shown.contains(MASK));
                assert!(shown.len() >= filler * 2);
            }
        }
    }
}

fn cut(text: &str, size: usize) -> Vec<String> {
    let characters: Vec<char> = text.chars().collect();
    characters.chunks(size).map(|part| part.iter().collect()).collect()
}

fn in_pieces(redactor: &Redactor, pieces: &[String]) -> String {
    let mut stream = redactor.stream();
    let mut shown: String = pieces.iter().map(|piece| stream.push(piece)).collect();
    shown.push_str(&stream.finish());
    shown
}

/// Secrets, parts of secrets, their introductions, and anything else, in any order.
fn text() -> impl Strategy<Value = String> {
    let shaped = select(&SHAPED[..]).prop_map(|(a, b, c)| format!("{a}{b}{c}"));
    let fragment = prop_oneof![
        3 => shaped,
        3 => select(&KNOWN[..]).prop_map(str::to_owned),
        2 => select(&CLEAN[..]).prop_map(str::to_owned),
        2 => select(&[" ", "\n", "\r\n", "=", ":", "\"", "'", "\\", "@", "://", MASK, "token"][..])
            .prop_map(str::to_owned),
        2 => any::<(prop::sample::Index, prop::sample::Index)>().prop_flat_map(|(from, to)| {
            let part = move |(_, secret, _): (&str, &str, &str)| {
                let letters: Vec<char> = secret.chars().collect();
                let (from, to) = (from.index(letters.len()), to.index(letters.len()));
                letters[from.min(to)..=from.max(to)].iter().collect::<String>()
            };
            select(&SHAPED[..]).prop_map(part)
        }),
        1 => any::<String>(),
        1 => "[ -~\n]{0,40}",
    ];
    vec(fragment, 0..8).prop_map(|fragments| fragments.concat())
}

proptest! {
    #[test]
    fn known_values_survive_nowhere(text in text()) {
        let redacted = redactor().redact(&text).into_owned();
        for value in KNOWN {
            prop_assert!(!redacted.contains(value), "{redacted}");
        }
    }

    #[test]
    fn shaped_secrets_survive_nowhere(before in text(), shaped in select(&SHAPED[..]), after in text()) {
        let (introduction, secret, end) = shaped;
        let text = format!("{before}\n{introduction}{secret}{end}\n{after}");
        let secrets = |text: &str| text.matches(secret).count();
        let elsewhere = secrets(&redactor().redact(&format!("{before}\n\n{after}")));
        prop_assert!(secrets(&redactor().redact(&text)) <= elsewhere);
    }

    #[test]
    fn twice_is_the_same_as_once(text in text()) {
        let once = redactor().redact(&text).into_owned();
        prop_assert_eq!(&*redactor().redact(&once), &*once);
    }

    #[test]
    fn pieces_give_the_same_as_the_whole(text in text(), cuts in vec(any::<prop::sample::Index>(), 0..12)) {
        let characters: Vec<char> = text.chars().collect();
        let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(characters.len() + 1)).collect();
        cuts.extend([0, characters.len()]);
        cuts.sort_unstable();
        let pieces: Vec<String> = cuts
            .windows(2)
            .map(|ends| characters[ends[0]..ends[1]].iter().collect())
            .collect();
        let shown = in_pieces(&redactor(), &pieces);
        prop_assert_eq!(&*redactor().redact(&text), &*shown);
        let one_by_one = in_pieces(&redactor(), &cut(&text, 1));
        prop_assert_eq!(shown, one_by_one);
    }

    #[test]
    fn the_quick_look_misses_nothing(text in text()) {
        let redactor = redactor();
        for line in text.lines() {
            let full = redactor.secrets_of(line, &PatternSet::all());
            prop_assert_eq!(redactor.secrets(line), full.clone());
            if redactor.is_clean(line) {
                let masks = line.matches(MASK).count();
                prop_assert!(full.len() <= masks && shape::key_begin(line).is_none());
            }
        }
    }
}

#[test]
fn a_value_that_is_learnt_later_is_masked_by_every_clone() {
    let redactor = Redactor::new(["first-secret"]);
    let earlier_clone = redactor.clone();
    redactor.add(["second-secret", "short"]);
    let text = "first-secret second-secret short";
    for one in [&redactor, &earlier_clone, &redactor.clone()] {
        assert_eq!(one.redact(text), "[redacted] [redacted] short");
    }
    assert_eq!(Redactor::default().redact(text), text);
}
