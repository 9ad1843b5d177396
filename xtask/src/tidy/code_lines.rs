//! Counts the lines of code that are neither blank nor comments, without tests, benchmarks and the
//! test kit. `cargo xtask tidy` prints the number, so that one can see whether a change reduces it.

use super::SourceFile;

/// Counts the lines of code in all files that are shipped.
pub(crate) fn count(sources: &[SourceFile]) -> usize {
    sources.iter().filter(|source| ships(&source.path)).map(|source| code_lines(&source.text)).sum()
}

fn ships(path: &str) -> bool {
    let is_source = path.starts_with("crates/") && path.ends_with(".rs");
    let is_test = path.split('/').any(|part| matches!(part, "tests" | "tests.rs" | "benches"));
    is_source && !is_test && !path.starts_with("crates/angelia-testkit/")
}

fn code_lines(text: &str) -> usize {
    text.lines()
        .map(str::trim_start)
        .filter(|line| !line.is_empty() && !line.starts_with("//"))
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blank_lines_and_comments_are_no_code() {
        assert_eq!(code_lines("//! A.\n\n/// B.\nfn b() {\n    // Why.\n}\n"), 2);
    }

    #[test]
    fn tests_and_the_test_kit_do_not_ship() {
        assert!(ships("crates/angelia/src/main.rs"));
        for path in [
            "crates/angelia/tests/cli/run.rs",
            "crates/angelia/src/config/tests.rs",
            "crates/angelia-testkit/src/lib.rs",
            "crates/angelia/benches/bus/main.rs",
            "xtask/src/main.rs",
        ] {
            assert!(!ships(path), "{path}");
        }
    }
}
