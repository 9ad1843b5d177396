//! Tests of durations as people write them.

use std::time::Duration;

use proptest::prelude::*;

use crate::config::types::Period;

#[test]
fn the_four_units_and_bare_seconds() {
    let cases = [
        ("0", 0, "0"),
        ("90", 90, "90s"),
        ("90s", 90, "90s"),
        ("10m", 600, "10m"),
        ("2h", 7_200, "2h"),
        ("7d", 604_800, "7d"),
        ("120m", 7_200, "2h"),
        ("0d", 0, "0"),
    ];
    for (text, seconds, canonical) in cases {
        let period = Period::parse(text).unwrap();
        assert_eq!(period.duration(), Duration::from_secs(seconds), "{text}");
        assert_eq!(period.to_string(), canonical);
    }
}

#[test]
fn anything_else_is_refused() {
    for text in [
        "",
        "m",
        "-1",
        "+1",
        "1.5",
        "1.5h",
        "10 m",
        "10mm",
        "10ms",
        "1h30m",
        "5min",
        "１０",
        "99999999999999999999d",
        "36501d",
    ] {
        assert!(Period::parse(text).is_err(), "{text:?}");
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(seconds in 0_u64..36_500 * 86_400) {
        let period = Period::seconds(seconds);
        prop_assert_eq!(Period::parse(&period.to_string()), Ok(period));
        prop_assert_eq!(Period::parse(&seconds.to_string()), Ok(period));
    }

    #[test]
    fn no_text_panics(text in "\\PC*") {
        let _any = Period::parse(&text);
    }

    #[test]
    fn a_number_with_a_unit_is_that_many(number in 0_u64..36_500, unit in 0_usize..4) {
        let (letter, factor) = [('s', 1), ('m', 60), ('h', 3_600), ('d', 86_400)][unit];
        let period = Period::parse(&format!("{number}{letter}"));
        prop_assert_eq!(period, Ok(Period::seconds(number * factor)));
    }
}
