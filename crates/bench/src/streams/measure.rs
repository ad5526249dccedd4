//! The kernel's figures about a process: its CPU time, its memory, and what it has written.

use std::path::Path;

/// Linux counts the time of processes in hundredths of a second, on every machine.
const TICK_MS: f64 = 10.0;
/// Two times in ticks are each rounded, so their difference is only so exact.
const DOUBT_MS: f64 = 2.0 * TICK_MS;
const BYTES_PER_KIB: f64 = 1024.0;
/// Positions in `stat` of the parent of a process, its own times, and those of its children that have ended.
const PARENT: usize = 1;
const OWN_TIMES: usize = 11;
const CHILDREN_TIMES: usize = 13;

/// The counters of a process at one moment.
#[derive(Debug, Clone, Copy)]
pub(super) struct ProcessReading {
    /// Milliseconds of all threads that live, to the nanosecond.
    threads_ms: f64,
    /// Milliseconds of all threads that ever lived, in ticks.
    total_ms: f64,
    /// Bytes that went to a disk.
    written: f64,
    /// Bytes of all write calls, some of those to sockets included.
    passed: f64,
}

/// The work of a process between two moments.
#[derive(Debug, Clone, Copy)]
pub(super) struct ProcessWork {
    pub(super) cpu_ms: f64,
    pub(super) written: f64,
    pub(super) passed: f64,
}

impl ProcessReading {
    pub(super) fn of(process: u32) -> Result<Self, String> {
        let io = read(process, "io")?;
        let count = |name: &str| number_after(&io, name).ok_or_else(|| format!("no {name} of the process"));
        Ok(Self {
            threads_ms: threads_ms(process),
            total_ms: total_ms(&read(process, "stat")?)?,
            written: count("write_bytes:")?,
            passed: count("wchar:")?,
        })
    }

    /// The exact time counts, unless a thread has ended meanwhile and taken its time along.
    pub(super) fn work_since(&self, before: &Self) -> ProcessWork {
        let (exact, total) = (self.threads_ms - before.threads_ms, self.total_ms - before.total_ms);
        let lost = total - exact > DOUBT_MS;
        ProcessWork {
            cpu_ms: if lost { total } else { exact },
            written: self.written - before.written,
            passed: self.passed - before.passed,
        }
    }
}

/// CPU time of a process and of its children, in milliseconds. The time of children that have ended is in the parent's
/// own counters, in ticks.
pub(super) fn family_ms(parent: u32) -> Result<f64, String> {
    let ended = ended_children_ms(&read(parent, "stat")?)?;
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let children = processes.filter_map(|entry| {
        let process: u32 = entry.file_name().to_str()?.parse().ok()?;
        let is_child = parent_of(&read(process, "stat").ok()?)? == parent;
        is_child.then(|| threads_ms(process))
    });
    Ok(threads_ms(parent) + ended + children.sum::<f64>())
}

/// Memory of a process that is no file, in KiB.
pub(super) fn anon_kib(process: u32) -> Result<f64, String> {
    let status = read(process, "status")?;
    number_after(&status, "RssAnon:").ok_or_else(|| "no RssAnon of the process".into())
}

/// The size of all files of a folder, in KiB. A file that disappears meanwhile counts nothing.
pub(super) fn folder_kib(folder: &Path) -> f64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let sizes = entries.map(|entry| match entry.metadata() {
        Ok(data) if data.is_dir() => folder_kib(&entry.path()),
        Ok(data) => data.len() as f64 / BYTES_PER_KIB,
        Err(_) => 0.0,
    });
    sizes.sum()
}

fn threads_ms(process: u32) -> f64 {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let nanos = tasks.filter_map(|task| {
        let stat = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        stat.split_whitespace().next()?.parse::<f64>().ok()
    });
    nanos.sum::<f64>() / 1e6
}

/// User and system time of the process.
fn total_ms(stat: &str) -> Result<f64, String> {
    times_ms(stat, OWN_TIMES)
}

/// User and system time of its children that have ended.
fn ended_children_ms(stat: &str) -> Result<f64, String> {
    times_ms(stat, CHILDREN_TIMES)
}

fn parent_of(stat: &str) -> Option<u32> {
    fields(stat).nth(PARENT)?.parse().ok()
}

/// The name of the program, in parentheses, may hold blanks; the fields that are numbered here are behind it.
fn fields(stat: &str) -> impl Iterator<Item = &str> {
    stat.rsplit_once(')').map(|(_, fields)| fields).unwrap_or_default().split_whitespace()
}

/// Two times that follow each other.
fn times_ms(stat: &str, first: usize) -> Result<f64, String> {
    let times: Vec<f64> = fields(stat).skip(first).take(2).filter_map(|text| text.parse().ok()).collect();
    match times.as_slice() {
        [user, system] => Ok((user + system) * TICK_MS),
        _ => Err("the kernel does not say how long the process has worked".into()),
    }
}

fn number_after(text: &str, name: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

fn read(process: u32, name: &str) -> Result<String, String> {
    let file = format!("/proc/{process}/{name}");
    std::fs::read_to_string(&file).map_err(|error| format!("cannot read {file}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_behind_the_name() {
        let stat = "7 (a ) b) S 1 2 3 4 5 6 7 8 9 10 30 12 5 2";
        assert_eq!(total_ms(stat), Ok(42.0 * TICK_MS));
        assert_eq!(ended_children_ms(stat), Ok(7.0 * TICK_MS));
        assert_eq!(parent_of(stat), Some(1));
        assert!(total_ms("7 (a) S").is_err());
    }

    #[test]
    fn the_time_of_children_counts_before_and_after_their_end() {
        let family = || family_ms(std::process::id()).unwrap();
        let before = family();
        let mut busy = std::process::Command::new("sh");
        let mut busy = busy.args(["-c", "while :; do :; done"]).spawn().unwrap();
        while family() < before + 100.0 {
            std::thread::yield_now();
        }
        busy.kill().unwrap();
        busy.wait().unwrap();
        assert!(family() >= before + 80.0, "what the child has done is lost");
    }

    #[test]
    fn numbers_are_found_by_their_name() {
        assert_eq!(number_after("VmRSS:\t 9 kB\nRssAnon:\t   42 kB\n", "RssAnon:"), Some(42.0));
        assert_eq!(number_after("wchar: 1\n", "write_bytes:"), None);
    }
}
