//! When models end, and what the server says about it to an operator who still uses one.

use std::fmt;

use jiff::civil::Date;

use super::catalogue::Catalogue;

/// How long before its end a model is warned of, in days.
pub const NOTICE_DAYS: i32 = 365;

/// A model that has ended, or will soon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retirement {
    pub model: String,
    pub day: Date,
    /// Whether the day has come.
    pub over: bool,
    /// The model to choose in its place, where that is known.
    pub instead: Option<String>,
}

impl fmt::Display for Retirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { model, day, over, instead } = self;
        let when = if *over { "was retired on" } else { "retires on" };
        write!(f, "{model} {when} {day}: choose {}", instead.as_deref().unwrap_or("another model"))
    }
}

/// Whether the day comes within the time of notice, or has come.
pub(super) fn within_notice(day: Option<Date>, today: Date) -> bool {
    day.is_some_and(|day| day <= today || days_between(today, day) <= NOTICE_DAYS)
}

/// Days from one day to a later one.
fn days_between(from: Date, to: Date) -> i32 {
    from.until(to).map_or(i32::MAX, |span| span.get_days())
}

impl Catalogue {
    /// Whether a provider's model has ended by `today`, or will within the time of notice.
    pub fn retirement(&self, provider: &str, id: &str, today: Date) -> Option<Retirement> {
        let chat = self.model(provider, id).map(|model| (model.retires_on, &model.instead));
        let vectors = || self.embedding(provider, id).map(|model| (model.retires_on, &model.instead));
        let (day, instead) = chat.or_else(vectors)?;
        let day = day.filter(|day| within_notice(Some(*day), today))?;
        Some(Retirement { model: id.to_owned(), day, over: day <= today, instead: instead.clone() })
    }

    /// The day on which a provider's model ends, where that is known.
    pub fn retires_on(&self, provider: &str, id: &str) -> Option<Date> {
        self.model(provider, id)?.retires_on
    }
}
