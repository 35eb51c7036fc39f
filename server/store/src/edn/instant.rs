//! `#inst`: a moment to the millisecond, between the years 0000 and 9999, which RFC 3339 can write.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970-01-01T00:00:00Z.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(i64);

const FIRST: i64 = -62_167_219_200_000; // 0000-01-01T00:00:00.000Z
const LAST: i64 = 253_402_300_799_999; // 9999-12-31T23:59:59.999Z

impl Instant {
    /// None outside the years 0000 to 9999.
    pub fn from_millis(millis: i64) -> Option<Instant> {
        (FIRST..=LAST).contains(&millis).then_some(Instant(millis))
    }

    /// Milliseconds since 1970.
    pub fn millis(self) -> i64 {
        self.0
    }

    /// The clock of this machine.
    pub fn now() -> Instant {
        let millis = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |d| d.as_millis() as i64);
        Instant(millis.clamp(FIRST, LAST))
    }

    /// Reads RFC 3339, or a prefix of it from the year on (`2026`, `2026-11`, `2026-11-30T10`), as
    /// EDN allows. Digits finer than a millisecond are dropped. No zone means UTC.
    pub fn parse(text: &str) -> Option<Instant> {
        if !text.is_ascii() {
            return None;
        }
        let (local, offset) = split_zone(text)?;
        let (date, time) = match local.split_once('T') {
            Some((date, time)) => (date, Some(time)),
            None => (local, None),
        };
        let mut parts = date.split('-');
        let year = digits(parts.next()?, 4)?;
        let month = parts.next().map_or(Some(1), |p| digits(p, 2))?;
        let day = parts.next().map_or(Some(1), |p| digits(p, 2))?;
        if parts.next().is_some() || (time.is_some() && date.len() != 10) {
            return None;
        }
        if !(1..=12).contains(&month) || !(1..=days_in_month(year, month)).contains(&day) {
            return None;
        }
        let of_day = time.map_or(Some(0), millis_of_day)?;
        Instant::from_millis(
            days_from_civil(year, month, day) * 86_400_000 + of_day - offset * 60_000,
        )
    }
}

/// The text before the zone, and the zone in minutes.
fn split_zone(text: &str) -> Option<(&str, i64)> {
    if let Some(local) = text.strip_suffix('Z') {
        return Some((local, 0));
    }
    let Some(time_at) = text.find('T') else {
        return Some((text, 0));
    };
    let Some(sign_at) = text[time_at..].find(['+', '-']).map(|i| i + time_at) else {
        return Some((text, 0));
    };
    let (hours, minutes) = text[sign_at + 1..].split_once(':')?;
    let (hours, minutes) = (digits(hours, 2)?, digits(minutes, 2)?);
    if hours > 23 || minutes > 59 {
        return None;
    }
    let minutes = hours * 60 + minutes;
    Some((
        &text[..sign_at],
        if text.as_bytes()[sign_at] == b'-' {
            -minutes
        } else {
            minutes
        },
    ))
}

fn millis_of_day(time: &str) -> Option<i64> {
    let (clock, fraction) = match time.split_once('.') {
        Some((clock, fraction)) if clock.len() == 8 => (clock, Some(fraction)),
        Some(_) => return None,
        None => (time, None),
    };
    let mut parts = clock.split(':');
    let hour = digits(parts.next()?, 2)?;
    let minute = parts.next().map_or(Some(0), |p| digits(p, 2))?;
    let second = parts.next().map_or(Some(0), |p| digits(p, 2))?;
    if parts.next().is_some() || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let millis = match fraction {
        None => 0,
        Some(f) if (1..=9).contains(&f.len()) && f.bytes().all(|b| b.is_ascii_digit()) => {
            format!("{f:0<3}")[..3].parse::<i64>().ok()?
        }
        Some(_) => return None,
    };
    Some(((hour * 60 + minute) * 60 + second) * 1000 + millis)
}

fn digits(text: &str, count: usize) -> Option<i64> {
    (text.len() == count && text.bytes().all(|b| b.is_ascii_digit())).then(|| text.parse().ok())?
}

fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days since 1970-01-01 in the proleptic Gregorian calendar (Howard Hinnant's algorithm).
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let shifted = (5 * of_year + 2) / 153;
    let month = if shifted < 10 {
        shifted + 3
    } else {
        shifted - 9
    };
    let year = year + era * 400 + i64::from(month <= 2);
    (year, month, of_year - (153 * shifted + 2) / 5 + 1)
}

impl fmt::Display for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = civil_from_days(self.0.div_euclid(86_400_000));
        let of_day = self.0.rem_euclid(86_400_000);
        let (second, millis) = (of_day / 1000, of_day % 1000);
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        write!(
            f,
            "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_rfc_3339_and_its_prefixes() {
        for (text, millis) in [
            ("1970-01-01T00:00:00.000Z", 0),
            ("1970-01-01T00:00:00.001-00:00", 1),
            ("1970-01-01T01:00:00+01:00", 0),
            ("1970", 0),
            ("1970-01-02", 86_400_000),
            ("2026-11-30T21:18:18.123456789Z", 1_796_073_498_123),
            ("2000-02-29T00:00:00Z", 951_782_400_000),
            ("0000-01-01T00:00:00Z", FIRST),
            ("9999-12-31T23:59:59.999Z", LAST),
        ] {
            assert_eq!(
                Instant::parse(text).map(Instant::millis),
                Some(millis),
                "{text}"
            );
        }
    }

    #[test]
    fn refuses_what_is_no_date() {
        for text in [
            "",
            "now",
            "2026-13-01",
            "2026-02-30",
            "1900-02-29",
            "2026-1-1",
            "2026-01-01T24:00:00Z",
            "2026-01-01T00:00:60Z",
            "2026-01T10:00Z",
            "2026-01-01T00:00:00.Z",
            "2026-01-01T00:00:00+1:00",
            "９９９９",
        ] {
            assert_eq!(Instant::parse(text), None, "{text}");
        }
    }

    #[test]
    fn days_of_every_year_print_and_read_back() {
        // A prime step meets every day of the year and every kind of year.
        for day in ((FIRST / 86_400_000)..=(LAST / 86_400_000)).step_by(97) {
            let instant = Instant(day * 86_400_000 + (day.rem_euclid(86_400)) * 1000 + 7);
            assert_eq!(Instant::parse(&instant.to_string()), Some(instant));
        }
    }
}
