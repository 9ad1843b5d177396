//! Times as people say them, in this machine's time zone.

use jiff::{Timestamp, tz::TimeZone};

/// Returns the age of a time if that is easy to grasp, or the time itself otherwise.
pub(crate) fn ago(at: Timestamp) -> String {
    relative(at, Timestamp::now(), &TimeZone::system())
}

/// Pure part of [`ago`].
pub(crate) fn relative(at: Timestamp, now: Timestamp, zone: &TimeZone) -> String {
    let seconds = now.duration_since(at).as_secs();
    let (then, today) = (at.to_zoned(zone.clone()), now.to_zoned(zone.clone()));
    let days = today.date().since(then.date()).map_or(i32::MAX, |span| span.get_days());
    match (seconds, days) {
        (0..60, _) => "just now".to_owned(),
        (60..3600, _) => format!("{} min ago", seconds / 60),
        (0..21_600, _) => format!("{} h ago", seconds / 3600),
        (_, 0) => then.strftime("today %H:%M").to_string(),
        (_, 1) => then.strftime("yesterday %H:%M").to_string(),
        (_, 2..7) => then.strftime("%a %H:%M").to_string(),
        _ if then.year() == today.year() => then.strftime("%-d %b %H:%M").to_string(),
        _ => then.strftime("%Y-%m-%d").to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_said_as_people_say_them() {
        let zone = TimeZone::get("Europe/Berlin").unwrap();
        let now: Timestamp = "2026-11-17T15:30:00+01:00".parse().unwrap();
        for (at, text) in [
            ("2026-11-17T15:29:40+01:00", "just now"),
            ("2026-11-17T15:27:00+01:00", "3 min ago"),
            ("2026-11-17T12:31:00+01:00", "2 h ago"),
            ("2026-11-17T07:05:00+01:00", "today 07:05"),
            ("2026-11-16T14:05:00+01:00", "yesterday 14:05"),
            ("2026-11-13T14:05:00+01:00", "Fri 14:05"),
            ("2026-11-10T14:05:00+01:00", "10 Nov 14:05"),
            // Summer time.
            ("2026-07-01T12:00:00Z", "1 Jul 14:00"),
            ("2025-12-31T23:30:00Z", "1 Jan 00:30"),
            ("2025-12-30T23:30:00Z", "2025-12-31"),
            // The clock has been set back since.
            ("2026-11-17T15:31:00+01:00", "today 15:31"),
        ] {
            assert_eq!(relative(at.parse().unwrap(), now, &zone), text, "{at}");
        }
    }

    #[test]
    fn an_hour_before_midnight_was_not_yesterday_afternoon() {
        let now: Timestamp = "2026-11-17T00:30:00Z".parse().unwrap();
        let at: Timestamp = "2026-11-16T23:00:00Z".parse().unwrap();
        assert_eq!(relative(at, now, &TimeZone::UTC), "1 h ago");
    }
}
