//! Moments as a person in this place would write them.

use std::mem::MaybeUninit;

/// A moment, in local time.
#[derive(Clone, Copy, Debug)]
pub struct Timestamp {
    fields: libc::tm,
}

impl Timestamp {
    /// From seconds since 1970; none if no calendar reaches that far.
    pub fn local(seconds: u64) -> Option<Timestamp> {
        let seconds = libc::time_t::try_from(seconds).ok()?;
        let mut fields = MaybeUninit::<libc::tm>::uninit();
        // SAFETY: both pointers are valid for the call, which fills in everything when it succeeds. This
        // process never changes its environment, where the time zone is looked up.
        let result = unsafe { libc::localtime_r(&seconds, fields.as_mut_ptr()) };
        // SAFETY: filled in, as the result says.
        (!result.is_null()).then(|| Timestamp { fields: unsafe { fields.assume_init() } })
    }

    /// `2031-01-02 03:04`
    pub fn to_minutes(self) -> String {
        let tm = &self.fields;
        format!(
            "{:04}-{:02}-{:02} {:02}:{:02}",
            i64::from(tm.tm_year) + 1900,
            tm.tm_mon + 1,
            tm.tm_mday,
            tm.tm_hour,
            tm.tm_min
        )
    }

    /// `2031-01-02 03:04:05`
    pub fn to_seconds(self) -> String {
        format!("{}:{:02}", self.to_minutes(), self.fields.tm_sec)
    }

    /// `2031-01-02T03:04:05+01:00`, as RFC 3339 has it.
    pub fn to_rfc3339(self) -> String {
        let offset = self.fields.tm_gmtoff / 60;
        let sign = if offset < 0 { '-' } else { '+' };
        let (hours, minutes) = (offset.abs() / 60, offset.abs() % 60);
        format!("{}{sign}{hours:02}:{minutes:02}", self.to_seconds().replace(' ', "T"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_have_a_date_and_absurd_ones_none() {
        let moment = Timestamp::local(1_000_000_000).unwrap();
        // Wherever the test runs.
        assert!(moment.to_seconds().starts_with("2001-09-0"), "{}", moment.to_seconds());
        assert_eq!(moment.to_seconds()[..16], moment.to_minutes());
        assert_eq!(moment.to_rfc3339().len(), "2001-09-09T01:46:40+00:00".len());
        assert!(Timestamp::local(u64::MAX).is_none());
        assert!(Timestamp::local(i64::MAX as u64).is_none());
    }
}
