//! Memories that are due: follow-ups, whose day is near or over, and memories that were not used for a while. A
//! follow-up is brought up once before the end of its day, and once after it.

use app::Fragment;
use jiff::civil::Date;
use jiff::{SignedDuration, Span, Timestamp};
use memory::dates;
use protocol::kind_within_subject;
use store::MemoryRow;

use super::memories;
use crate::context::PromptPiece;
use crate::context::gather::Sources;

/// The newest memories that are searched for follow-ups.
const MAX_LOOKED_AT: usize = 500;
/// The most follow-ups that one prompt brings up.
const MAX_FOLLOW_UPS: usize = 2;
/// A follow-up is shown from `DAYS_BEFORE` days before its first day until `DAYS_AFTER` days after its last day.
const DAYS_BEFORE: i64 = 1;
const DAYS_AFTER: i64 = 14;
/// A memory that is younger than this is not brought up.
const JUST_SAID: SignedDuration = SignedDuration::from_hours(12);
/// Days after which a memory is due again, by the number of its uses. The last one is for all higher numbers.
const GAPS: [i64; 5] = [1, 3, 7, 16, 35];

/// The follow-ups that are to be brought up now, soonest first.
pub(in crate::context) async fn read(from: &Sources<'_>) -> Result<Vec<PromptPiece>, store::Error> {
    let kinds = &from.app.memory.follow_up;
    if kinds.is_empty() {
        return Ok(Vec::new());
    }
    let rows = from.world.store.active_memories(from.scope, MAX_LOOKED_AT).await?;
    let is_follow_up = |row: &&MemoryRow| kinds.iter().any(|kind| kind == kind_within_subject(&row.kind));
    let mut due: Vec<(Date, PromptPiece)> =
        rows.iter().filter(is_follow_up).filter_map(|row| due_follow_up(from, row)).collect();
    due.sort_by_key(|(day, _)| *day);
    Ok(due.into_iter().take(MAX_FOLLOW_UPS).map(|(_, piece)| piece).collect())
}

/// The follow-up with its first day, if its day is near or over and no answer has mentioned it since.
fn due_follow_up(from: &Sources<'_>, row: &MemoryRow) -> Option<(Date, PromptPiece)> {
    let time = dates::named_span(&row.text, row.created_at, &from.zone)?;
    let day = |at: Timestamp| at.to_zoned(from.zone.clone()).date();
    let (first, today) = (day(time.start), day(from.now));
    let last = day(time.end).yesterday().ok()?.max(first);
    let near = first.checked_sub(Span::new().days(DAYS_BEFORE)).ok()?;
    let over = last.checked_add(Span::new().days(DAYS_AFTER)).ok()?;
    // A day before the memory itself is no follow-up.
    let is_ahead = first >= day(row.created_at);
    let said = row.valid_from.map_or(row.created_at, |since| since.max(row.created_at));
    let is_news = from.now.duration_since(said) < JUST_SAID;
    if !is_ahead || is_news || today < near || today > over {
        return None;
    }
    let phase = if today > last { last.tomorrow().ok()? } else { near };
    if row.last_accessed_at.is_some_and(|used| day(used) >= phase) {
        return None;
    }
    Some((first, memories::piece(Fragment::Recalled, row, Some(&describe_day(first, last, today)))))
}

fn describe_day(first: Date, last: Date, today: Date) -> String {
    let days = |from: Date, to: Date| from.until(to).map_or(0, |span| span.get_days());
    if today < first {
        "its day is tomorrow".to_owned()
    } else if today <= last {
        if first == last { "its day is today" } else { "its time is now" }.to_owned()
    } else {
        match days(last, today) {
            1 => "its day was yesterday".to_owned(),
            days => format!("its day was {days} days ago"),
        }
    }
}

/// A note of how long ago a memory of these kinds was used, if it is due for practice.
pub(in crate::context) fn for_practice(row: &MemoryRow, kinds: &[String], now: Timestamp) -> Option<String> {
    kinds.iter().find(|kind| *kind == kind_within_subject(&row.kind))?;
    let used =
        [row.last_accessed_at, row.valid_from].into_iter().flatten().fold(row.created_at, Timestamp::max);
    let days = now.duration_since(used).as_hours() / 24;
    let uses = usize::try_from(row.access_count).unwrap_or(usize::MAX);
    let gap = GAPS.get(uses).or(GAPS.last())?;
    (days >= *gap).then(|| format!("due for practice, last used {days} days ago"))
}

#[cfg(test)]
mod tests {
    use protocol::{AppId, MemoryId, Scope, UserId};
    use uuid::Uuid;

    use super::*;

    fn row(kind: &str, uses: u64, days_ago: i64) -> MemoryRow {
        let used = now().checked_sub(SignedDuration::from_hours(24 * days_ago)).unwrap();
        MemoryRow {
            id: MemoryId::new(Uuid::from_u128(1)),
            scope: Scope { app: AppId::new("tutor"), user: UserId::new("ann") },
            text: "Understands halves".into(),
            kind: kind.into(),
            status: store::MemoryStatus::Active,
            access_count: uses,
            last_accessed_at: (uses > 0).then_some(used),
            source: "user".into(),
            created_at: if uses > 0 { Timestamp::UNIX_EPOCH } else { used },
            updated_at: used,
            version: 1,
            valid_from: None,
            valid_until: None,
            superseded_by: None,
            first_source: None,
        }
    }

    fn now() -> Timestamp {
        "2026-11-16T12:00:00Z".parse().unwrap()
    }

    #[test]
    fn practice_is_due_after_gaps_that_grow_with_each_use() {
        let kinds = ["level".to_owned()];
        for (uses, gap) in [(0, 1), (1, 3), (2, 7), (3, 16), (4, 35), (9, 35)] {
            let due = |days| for_practice(&row("maths/level", uses, days), &kinds, now());
            assert_eq!(due(gap - 1), None, "{uses} uses");
            assert_eq!(due(gap), Some(format!("due for practice, last used {gap} days ago")), "{uses} uses");
        }
        assert_eq!(for_practice(&row("maths/goal", 0, 90), &kinds, now()), None, "a goal is not practised");
    }

    #[test]
    fn the_day_of_a_follow_up_is_told_as_people_say_it() {
        let day = |text: &str| text.parse::<Date>().unwrap();
        let first = day("2026-11-10");
        for (last, today, said) in [
            ("2026-11-10", "2026-11-09", "its day is tomorrow"),
            ("2026-11-10", "2026-11-10", "its day is today"),
            ("2026-11-12", "2026-11-11", "its time is now"),
            ("2026-11-10", "2026-11-11", "its day was yesterday"),
            ("2026-11-10", "2026-11-16", "its day was 6 days ago"),
        ] {
            assert_eq!(describe_day(first, day(last), day(today)), said);
        }
    }
}
