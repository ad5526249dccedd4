//! The scenarios: their settings, and what is aimed at in each.

use std::time::Duration;

use super::figures::StreamFigure;
use super::load::{LoadPlan, ServerKind};
use super::script::AnswerScript;
use super::trial::LoadShape;

/// Chunks of an answer.
const CHUNKS: usize = 200;
/// Chunks of a paced answer under `--quick`, so that it takes less than five seconds.
const QUICK_PACED_CHUNKS: usize = 90;
/// After this time no turn begins.
const LIMIT: Duration = Duration::from_secs(20);
const QUICK_LIMIT: Duration = Duration::from_secs(5);
/// Users of the scenarios with 500 streams and more. An app lets one user have 16 active runs.
const USERS: usize = 500;
/// Earlier turns of a thread of the floor.
const MAX_FLOOR_TURNS: usize = 1000;
const FIRST_MS: u64 = 200;
const GAP_MS: u64 = 50;

const RONDO: &str = ServerKind::Rondo.name();
const RONDO_POSTGRES: &str = ServerKind::RondoPostgres.name();
const FLOOR: &str = ServerKind::Floor.name();
/// The names of rows that are compared inside of one server.
pub(super) const RONDO_FRESH: &str = "rondo fresh";
pub(super) const RONDO_LONG: &str = "rondo long";
pub(super) const FLOOR_FRESH: &str = "floor fresh";
pub(super) const FLOOR_LONG: &str = "floor long";
pub(super) const RONDO_NO_MEMORIES: &str = "rondo none";
pub(super) const RONDO_MEMORIES: &str = "rondo memories";

/// One scenario.
#[derive(Debug, Clone, Copy)]
pub(super) struct StreamScenario {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    pub(super) work: ScenarioWork,
    pub(super) aims: &'static [StreamAim],
    pub(super) when: ScenarioChoice,
}

/// When a scenario runs that is not named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ScenarioChoice {
    /// Also with `--quick`.
    Always,
    Usually,
    /// With `--long` only.
    Long,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum ScenarioWork {
    Load { shape: LoadShape, servers: &'static [ServerKind] },
    History { turns: usize },
    Start,
    Recall,
}

/// The aim of a scenario. Rows are named by their servers.
#[derive(Debug, Clone, Copy)]
pub(super) enum StreamAim {
    /// The CPU time of a row as a multiple of that of another row, at most.
    CpuRatio {
        row: &'static str,
        to: &'static str,
        most: f64,
    },
    Most {
        row: &'static str,
        figure: StreamFigure,
        most: f64,
    },
    NoFailure {
        row: &'static str,
    },
}

const ALL: &[ServerKind] = &[ServerKind::Rondo, ServerKind::Floor, ServerKind::Proxy];
/// A proxy runs no tools and knows no history.
const WITHOUT_PROXY: &[ServerKind] = &[ServerKind::Rondo, ServerKind::Floor];
const RONDO_ONLY: &[ServerKind] = &[ServerKind::Rondo];
const BOTH_STORES: &[ServerKind] = &[ServerKind::Rondo, ServerKind::RondoPostgres];

/// All scenarios, in the order in which they run.
pub(super) const SCENARIOS: &[StreamScenario] = &[
    StreamScenario {
        name: "plain",
        about: "16 clients, 3 threads of 5 turns each, no delay",
        work: ScenarioWork::Load { shape: busy_load(false), servers: ALL },
        aims: &[
            StreamAim::CpuRatio { row: RONDO, to: FLOOR, most: 1.5 },
            StreamAim::NoFailure { row: RONDO },
        ],
        when: ScenarioChoice::Always,
    },
    StreamScenario {
        name: "tools",
        about: "16 clients, 3 threads of 5 turns each, two tool calls in each run, no delay",
        work: ScenarioWork::Load { shape: busy_load(true), servers: WITHOUT_PROXY },
        aims: &[
            StreamAim::CpuRatio { row: RONDO, to: FLOOR, most: 1.7 },
            StreamAim::NoFailure { row: RONDO },
        ],
        when: ScenarioChoice::Always,
    },
    StreamScenario {
        name: "pace-100",
        about: "100 streams of 100 users at once, 50 ms between chunks, the first after 200 ms",
        work: ScenarioWork::Load { shape: paced_load(100, 100), servers: ALL },
        aims: &[
            StreamAim::CpuRatio { row: RONDO, to: FLOOR, most: 2.0 },
            StreamAim::NoFailure { row: RONDO },
        ],
        when: ScenarioChoice::Always,
    },
    StreamScenario {
        name: "pace-500",
        about: "500 streams of 500 users at once, 50 ms between chunks, the first after 200 ms",
        work: ScenarioWork::Load { shape: paced_load(500, USERS), servers: ALL },
        aims: &[
            StreamAim::Most { row: RONDO, figure: StreamFigure::FirstMost, most: 200.0 },
            StreamAim::NoFailure { row: RONDO },
        ],
        when: ScenarioChoice::Usually,
    },
    StreamScenario {
        name: "pace-1000",
        about: "1,000 streams of 500 users at once, 50 ms between chunks, the first after 200 ms",
        work: ScenarioWork::Load { shape: paced_load(1000, USERS), servers: ALL },
        aims: &[
            StreamAim::Most { row: RONDO, figure: StreamFigure::FirstMost, most: 300.0 },
            StreamAim::Most { row: RONDO, figure: StreamFigure::AnonPerStream, most: 48.0 },
            StreamAim::Most { row: RONDO, figure: StreamFigure::WrittenPerToken, most: 1024.0 },
            StreamAim::NoFailure { row: RONDO },
        ],
        when: ScenarioChoice::Usually,
    },
    StreamScenario {
        name: "slow-5000",
        about: "5,000 streams of 500 users, which begin within 5 s; 40 chunks, 250 ms between them",
        work: ScenarioWork::Load { shape: crowd(40, 250, Duration::from_secs(5)), servers: RONDO_ONLY },
        aims: &[
            StreamAim::Most { row: RONDO, figure: StreamFigure::FirstMost, most: 1000.0 },
            StreamAim::NoFailure { row: RONDO },
        ],
        when: ScenarioChoice::Usually,
    },
    StreamScenario {
        name: "fast-5000",
        about: "5,000 streams of 500 users, which begin within 3 s; 100 chunks, 50 ms between them",
        work: ScenarioWork::Load { shape: crowd(100, 50, Duration::from_secs(3)), servers: RONDO_ONLY },
        aims: &[StreamAim::NoFailure { row: RONDO }],
        when: ScenarioChoice::Usually,
    },
    StreamScenario {
        name: "history-200",
        about: "one client; turns of a thread with 200 earlier turns, and first turns of new threads, in turn",
        work: ScenarioWork::History { turns: 200 },
        aims: HISTORY_AIMS,
        when: ScenarioChoice::Usually,
    },
    StreamScenario {
        name: "history-10000",
        about: "one client; turns of a thread with 10,000 earlier turns, and first turns of new threads, in turn",
        work: ScenarioWork::History { turns: 10_000 },
        aims: HISTORY_AIMS,
        when: ScenarioChoice::Long,
    },
    StreamScenario {
        name: "start",
        about: "a new data folder and the five built-in apps; then two messages",
        work: ScenarioWork::Start,
        aims: &[
            StreamAim::Most { row: RONDO, figure: StreamFigure::Ready, most: 50.0 },
            StreamAim::Most { row: RONDO, figure: StreamFigure::IdleAnon, most: 25.0 },
            StreamAim::Most { row: RONDO, figure: StreamFigure::FirstMessageExtra, most: 100.0 },
        ],
        when: ScenarioChoice::Usually,
    },
    StreamScenario {
        name: "recall",
        about: "one client; first turns of a user with 10,000 memories, and of a user with none, in turn",
        work: ScenarioWork::Recall,
        aims: &[StreamAim::NoFailure { row: RONDO_MEMORIES }],
        when: ScenarioChoice::Usually,
    },
];

/// The aims on PostgreSQL, by scenario.
const POSTGRES_AIMS: &[(&str, &[StreamAim])] = &[
    (
        "pace-100",
        &[
            StreamAim::CpuRatio { row: RONDO_POSTGRES, to: RONDO, most: 2.5 },
            StreamAim::NoFailure { row: RONDO_POSTGRES },
        ],
    ),
    (
        "pace-1000",
        &[
            StreamAim::Most { row: RONDO_POSTGRES, figure: StreamFigure::Commits, most: 200.0 },
            StreamAim::NoFailure { row: RONDO_POSTGRES },
        ],
    ),
];
/// The aims of the other scenarios.
const OTHER_POSTGRES_AIMS: &[StreamAim] = &[StreamAim::NoFailure { row: RONDO_POSTGRES }];

const HISTORY_AIMS: &[StreamAim] = &[
    StreamAim::CpuRatio { row: RONDO_LONG, to: RONDO_FRESH, most: 1.3 },
    StreamAim::NoFailure { row: RONDO_LONG },
];

/// Answers without a delay, as fast as the server takes them.
const fn busy_load(tools: bool) -> LoadShape {
    LoadShape {
        script: AnswerScript { chunks: CHUNKS, first_ms: 0, gap_ms: 0, tools, in_step: false },
        plan: LoadPlan { clients: 16, turns_per_thread: 5, arrival: Duration::ZERO, limit: LIMIT },
        rounds: 3,
        users: 0,
    }
}

/// All streams begin in the same moment.
const fn paced_load(clients: usize, users: usize) -> LoadShape {
    LoadShape {
        script: AnswerScript {
            chunks: CHUNKS,
            first_ms: FIRST_MS,
            gap_ms: GAP_MS,
            tools: false,
            in_step: false,
        },
        plan: LoadPlan { clients, turns_per_thread: 1, arrival: Duration::ZERO, limit: LIMIT },
        rounds: 1,
        users,
    }
}

/// 5,000 people do not press a key in the same moment, but all are there at the same time.
const fn crowd(chunks: usize, gap_ms: u64, arrival: Duration) -> LoadShape {
    LoadShape {
        script: AnswerScript { chunks, first_ms: FIRST_MS, gap_ms, tools: false, in_step: false },
        plan: LoadPlan { clients: 5000, turns_per_thread: 1, arrival, limit: LIMIT },
        rounds: 1,
        users: USERS,
    }
}

impl ScenarioWork {
    /// The servers that are measured one after another.
    pub(super) fn servers(&self) -> &'static [ServerKind] {
        match self {
            Self::Load { servers, .. } => servers,
            // The floor sends the whole history with each turn, so that making a very long thread takes minutes.
            Self::History { turns } if *turns > MAX_FLOOR_TURNS => RONDO_ONLY,
            Self::History { .. } => WITHOUT_PROXY,
            Self::Start | Self::Recall => RONDO_ONLY,
        }
    }
}

impl StreamScenario {
    /// The short form of a scenario.
    pub(super) fn short_form(mut self) -> Self {
        if let ScenarioWork::Load { shape, .. } = &mut self.work {
            shape.plan.limit = QUICK_LIMIT;
            if shape.script.gap_ms > 0 {
                shape.script.chunks = shape.script.chunks.min(QUICK_PACED_CHUNKS);
            }
        }
        self
    }

    /// The scenario as a comparison of both databases. None if it has no streams.
    pub(super) fn on_both_stores(mut self) -> Option<Self> {
        let ScenarioWork::Load { shape, .. } = self.work else { return None };
        self.work = ScenarioWork::Load { shape, servers: BOTH_STORES };
        let aims = POSTGRES_AIMS.iter().find(|(name, _)| *name == self.name);
        self.aims = aims.map_or(OTHER_POSTGRES_AIMS, |(_, aims)| aims);
        Some(self)
    }

    /// Files that the server opens at most: a connection to a client and one to the upstream for each stream, and others.
    pub(super) fn open_files(&self) -> usize {
        const OTHER_FILES: usize = 500;
        /// The server keeps only a third of its files for calls of the model.
        const FILES_PER_STREAM: usize = 3;
        match self.work {
            ScenarioWork::Load { shape, .. } => shape.plan.clients * FILES_PER_STREAM + OTHER_FILES,
            ScenarioWork::History { .. } | ScenarioWork::Start | ScenarioWork::Recall => OTHER_FILES,
        }
    }
}
