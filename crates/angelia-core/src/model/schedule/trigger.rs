//! The trigger of a schedule and its text form: five cron fields, `at TIME`, `every PERIOD` or
//! `watch PATH`.

use std::{
    fmt,
    path::{Path, PathBuf},
    time::Duration,
};

use croner::{
    Cron,
    parser::{CronParser, Seconds, Year},
};
use jiff::{SignedDuration, Span, SpanRelativeTo, Timestamp, civil::DateTime, tz::TimeZone};

/// The shortest period.
const MIN_PERIOD: Duration = Duration::from_secs(1);

/// A longer period is treated as a typing error.
const MAX_PERIOD: Duration = Duration::from_hours(24 * 36_500);

#[derive(Clone, Debug, PartialEq)]
pub enum Trigger {
    Cron(Box<CronTrigger>),
    At(Timestamp),
    /// Counted from the creation of the schedule.
    Every(Duration),
    /// A change to the file, or to any file below the folder.
    Watch(PathBuf),
}

/// A cron expression in a time zone.
#[derive(Clone, Debug, PartialEq)]
pub struct CronTrigger {
    cron: Cron,
    zone: TimeZone,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TriggerError {
    #[error(
        "`{0}` is not a cron expression; write five fields: minute, hour, day of the month, month, \
         day of the week, such as 0 9 * * 1-5"
    )]
    Cron(String),
    #[error("`{0}` is never due")]
    Never(String),
    #[error("`{0}` is not a time; write 2026-01-31T09:00:00Z or 2026-01-31 09:00")]
    Time(String),
    #[error("`{0}` is not a period of at least one second; write 90s, 10m, 2h or 7d")]
    Period(String),
    #[error("`{0}` is not an absolute path")]
    Path(String),
}

impl Trigger {
    /// Parses the text of a trigger. Times without a zone are in `zone`.
    pub fn parse(text: &str, zone: &TimeZone) -> Result<Self, TriggerError> {
        let text = text.trim();
        match text.split_once(char::is_whitespace) {
            Some(("at", time)) => parse_time(time.trim(), zone).map(Self::At),
            Some(("every", period)) => parse_period(period.trim()).map(Self::Every),
            Some(("watch", path)) => Self::watch(Path::new(path.trim())),
            _ => CronTrigger::parse(text, zone).map(|cron| Self::Cron(Box::new(cron))),
        }
    }

    pub fn watch(path: &Path) -> Result<Self, TriggerError> {
        if path.is_absolute() {
            Ok(Self::Watch(path.to_path_buf()))
        } else {
            Err(TriggerError::Path(path.display().to_string()))
        }
    }

    /// Returns the time zone of the trigger.
    pub const fn zone(&self) -> Option<&TimeZone> {
        match self {
            Self::Cron(cron) => Some(&cron.zone),
            _ => None,
        }
    }

    pub(super) fn next_after(&self, anchor: Timestamp, after: Timestamp) -> Option<Timestamp> {
        match self {
            Self::Cron(cron) => cron.next_after(after),
            Self::At(at) => Some(*at).filter(|at| *at > after),
            Self::Every(period) => {
                let passed = periods_between(anchor, after, *period).unwrap_or(0);
                nth_period(anchor, *period, passed + 1)
            }
            Self::Watch(_) => None,
        }
    }

    pub(super) fn last_until(&self, anchor: Timestamp, until: Timestamp) -> Option<Timestamp> {
        match self {
            Self::Cron(cron) => cron.last_until(until),
            Self::At(at) => Some(*at).filter(|at| *at <= until),
            Self::Every(period) => {
                let passed =
                    periods_between(anchor, until, *period).filter(|passed| *passed > 0)?;
                nth_period(anchor, *period, passed)
            }
            Self::Watch(_) => None,
        }
    }
}

/// Returns the number of whole periods between two times, or `None` if the second is earlier.
fn periods_between(anchor: Timestamp, time: Timestamp, period: Duration) -> Option<u128> {
    let passed = Duration::try_from(time.duration_since(anchor)).ok()?;
    passed.as_nanos().checked_div(period.as_nanos())
}

fn nth_period(anchor: Timestamp, period: Duration, number: u128) -> Option<Timestamp> {
    let nanoseconds = i128::try_from(period.as_nanos().checked_mul(number)?).ok()?;
    let since = SignedDuration::try_from_nanos_i128(nanoseconds)?;
    anchor.checked_add(since).ok()
}

impl CronTrigger {
    fn parse(text: &str, zone: &TimeZone) -> Result<Self, TriggerError> {
        let parser =
            CronParser::builder().seconds(Seconds::Disallowed).year(Year::Disallowed).build();
        let cron = parser.parse(text).map_err(|_error| TriggerError::Cron(text.to_owned()))?;
        let trigger = Self { cron, zone: zone.clone() };
        // If there is no next time after one start, there is none after any: the expression names a
        // day that no year has.
        match trigger.next_after(Timestamp::UNIX_EPOCH) {
            Some(_) => Ok(trigger),
            None => Err(TriggerError::Never(text.to_owned())),
        }
    }

    fn next_after(&self, after: Timestamp) -> Option<Timestamp> {
        let next = self.cron.find_next_occurrence(&after.to_zoned(self.zone.clone()), false);
        next.ok().map(|zoned| zoned.timestamp()).filter(|next| *next > after)
    }

    fn last_until(&self, until: Timestamp) -> Option<Timestamp> {
        let last = self.cron.find_previous_occurrence(&until.to_zoned(self.zone.clone()), true);
        last.ok().map(|zoned| zoned.timestamp()).filter(|last| *last <= until)
    }
}

fn parse_time(text: &str, zone: &TimeZone) -> Result<Timestamp, TriggerError> {
    if let Ok(time) = text.parse() {
        return Ok(time);
    }
    let wrong = || TriggerError::Time(text.to_owned());
    // A time in the gap of a clock change moves to the end of the gap; of a repeated time, the
    // first counts.
    let local: DateTime = text.parse().map_err(|_| wrong())?;
    local.to_zoned(zone.clone()).map(|zoned| zoned.timestamp()).map_err(|_| wrong())
}

fn parse_period(text: &str) -> Result<Duration, TriggerError> {
    let period = match text.parse() {
        Ok(seconds) => Some(Duration::from_secs(seconds)),
        Err(_) => text.parse::<Span>().ok().and_then(|span| {
            let period = span.to_duration(SpanRelativeTo::days_are_24_hours()).ok()?;
            Duration::try_from(period).ok()
        }),
    };
    let period = period.filter(|period| (MIN_PERIOD..=MAX_PERIOD).contains(period));
    period.ok_or_else(|| TriggerError::Period(text.to_owned()))
}

impl fmt::Display for Trigger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cron(cron) => f.write_str(cron.cron.as_str()),
            Self::At(at) => write!(f, "at {at}"),
            Self::Every(period) => write!(f, "every {}", PeriodText(*period)),
            Self::Watch(path) => write!(f, "watch {}", path.display()),
        }
    }
}

/// Displays a period in the coarsest unit that divides it, from days to milliseconds.
struct PeriodText(Duration);

impl fmt::Display for PeriodText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs();
        if self.0.subsec_nanos() > 0 {
            return write!(f, "{}ms", self.0.as_millis());
        }
        let units = [(86_400, 'd'), (3600, 'h'), (60, 'm')];
        match units.iter().find(|(size, _)| seconds.is_multiple_of(*size)) {
            Some((size, unit)) => write!(f, "{}{unit}", seconds / size),
            None => write!(f, "{seconds}s"),
        }
    }
}
