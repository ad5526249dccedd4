//! Operations on runs: they begin, stream, take steps, wait, stop and end.

use protocol::{
    Call, CallId, Cost, Delta, Event, Failure, Finish, Ids as _, MessagePart, OnBusy, PlannedCall, RunEnd,
    RunId, RunStatus, Scope, Settings, SpendBounds, StepEnd, StepReset, StepRetry, StepStart, StreamComplete,
    UserLimits,
};
use serde_json::json;
use store::{
    ForcedEnd, NewJob, RunAcceptance, RunInput, RunJob, RunLog, RunRequest, RunRow, Submission, Target, Write,
};

use super::generator::ComparedPlan;
use super::threads::earlier_run;

/// Kinds of jobs that runs cause.
pub(super) const JOB_KINDS: &[&str] = &["title", "extract", "summarise"];

impl ComparedPlan {
    pub(super) fn some_run(&mut self) -> (Scope, RunId) {
        self.thing(|known| &known.runs, |ids| ids.run())
    }

    /// A run as it is now: under way if one is found, or sometimes one that has ended. Nothing writes to a queued one.
    pub(super) async fn run_under_way(&mut self) -> Option<RunRow> {
        for _ in 0..4 {
            let (scope, id) = self.pick(|known| &known.runs)?;
            let principal = protocol::Principal::authenticated(scope.user);
            let row = ask!(self, run(&principal, id));
            match row {
                Some(row) if row.status == RunStatus::Queued => {}
                Some(row) if !row.status.is_terminal() || self.once_in(12) => return Some(row),
                Some(_) | None => {}
            }
        }
        None
    }

    /// The logs of a run on both sides, sometimes those of an earlier owner.
    pub(super) fn logs(&mut self, run: &RunRow) -> (RunLog, RunLog) {
        let epoch = if self.once_in(40) { run.epoch.saturating_sub(1) } else { run.epoch };
        let run = RunRow { epoch, ..run.clone() };
        let (file, server) = self.stores();
        (file.log(&run), server.log(&run))
    }

    /// Records events with the jobs and the writes that go with them.
    pub(super) async fn record(
        &mut self,
        logs: &(RunLog, RunLog),
        events: Vec<Event>,
        jobs: Vec<NewJob>,
        writes: Vec<Write>,
    ) -> Option<Vec<bool>> {
        self.note("record", format!("{:?}", (&events, &jobs, &writes)));
        let one = logs.0.record(events.clone(), jobs.clone(), writes.clone()).await;
        let other = logs.1.record(events, jobs, writes).await;
        self.compare(one, other)
    }

    pub(super) fn new_jobs(&mut self) -> Vec<NewJob> {
        let job = |plan: &mut Self| {
            let kind = plan.one_of(JOB_KINDS);
            let key = if plan.once_in(4) { plan.name() } else { format!("{kind} {}", plan.random.u32(..)) };
            let delay = std::time::Duration::from_millis(plan.random.u64(..20_000));
            NewJob { id: plan.ids.job(), kind, key, delay }
        };
        (0..self.random.usize(..3)).map(|_| job(self)).collect()
    }

    fn limits(&mut self) -> UserLimits {
        if !self.once_in(6) {
            return UserLimits::default();
        }
        let limit = |plan: &mut Self, max: u64| plan.maybe(|plan| plan.random.u64(..max));
        UserLimits {
            runs_per_minute: limit(self, 10),
            runs_per_day: limit(self, 200),
            tokens_per_minute: limit(self, 100_000),
            tokens_per_day: limit(self, 1_000_000),
            max_running: limit(self, 8),
        }
    }

    fn request(&mut self, ask: RunInput) -> RunRequest {
        let job = |plan: &mut Self| RunJob {
            id: plan.ids.job(),
            kind: plan.one_of(JOB_KINDS).to_owned(),
            delay_ms: plan.random.u64(..50_000),
        };
        RunRequest {
            ask,
            model: Some(self.model()),
            settings: Settings { temperature: self.maybe(|plan| plan.random.f64()), ..Settings::default() },
            system_prompt: self.maybe(ComparedPlan::text),
            persona: self.maybe(ComparedPlan::name),
            documents: None,
            app_revision: "r".into(),
            echo: self.maybe(ComparedPlan::json),
            actor: if self.once_in(6) { Some(self.name()) } else { None },
            tools: vec![],
            client_tools: vec![],
            answer_schema: None,
            earlier: if self.once_in(10) { vec![earlier_run(self)] } else { vec![] },
            jobs: if self.once_in(3) { vec![job(self)] } else { vec![] },
        }
    }

    fn parts(&mut self) -> Vec<MessagePart> {
        let Some((_, image_id)) = self.pick(|known| &known.images) else { return vec![] };
        if !self.once_in(4) {
            return vec![];
        }
        let image =
            MessagePart::Image { image_id, media_type: "image/png".into(), width: 1, height: 2, name: None };
        vec![image]
    }

    pub(super) fn submission(&mut self) -> Submission {
        let (scope, known) = self.some_thread();
        let (scope, thread) = match self.random.u32(..8) {
            0..=2 => (self.scope(), Target::New(self.ids.thread())),
            3 => (self.near(scope), Target::Ensured(known)),
            4 => (self.scope(), Target::Ensured(self.ids.thread())),
            _ => (self.near(scope), Target::Existing(known)),
        };
        let ask = if self.once_in(6) {
            RunInput::Again { of: self.maybe(|plan| plan.message_in(thread.id())) }
        } else {
            let parent = if self.once_in(4) { Some(self.message_in(thread.id())) } else { None };
            RunInput::Say { id: self.ids.message(), text: self.text(), parent, parts: self.parts() }
        };
        Submission {
            scope,
            thread,
            run: self.ids.run(),
            on_busy: self.one_of(&[OnBusy::Queue, OnBusy::Reject, OnBusy::Interrupt]),
            once: self.once(),
            replay_only: self.once_in(30),
            limits: self.limits(),
            request: self.request(ask),
        }
    }

    /// Notes what a submission has made.
    pub(super) fn learn_submission(
        &mut self,
        scope: &Scope,
        thread: protocol::ThreadId,
        ask: &RunInput,
        run: RunId,
    ) {
        self.known.threads.push((scope.clone(), thread));
        self.known.runs.push((scope.clone(), run));
        if let RunInput::Say { id, .. } = ask {
            self.known.messages.push((thread, *id));
        }
    }
}

pub(super) async fn submit(plan: &mut ComparedPlan) {
    let submission = plan.submission();
    let Some((made, _)) = ask!(plan, submit(submission.clone())) else { return };
    if made.admitted != RunAcceptance::Replayed {
        plan.learn_submission(&submission.scope, made.thread, &submission.request.ask, made.run);
    }
    if let Some(once) = submission.once {
        let mut once = once;
        if plan.once_in(3) {
            once.fingerprint = [255; 32];
        }
        ask!(plan, is_made(&submission.scope, once.clone()));
    }
}

/// Pieces of an answer. The last question waits for their commit, because the writer takes one thing after the other.
pub(super) async fn stream(plan: &mut ComparedPlan) {
    let Some(run) = plan.run_under_way().await else { return };
    let logs = plan.logs(&run);
    let step = plan.known.places.entry(run.id).or_default().step + 1;
    let start = Event::StepStart(StepStart { step, model: plan.model() });
    plan.record(&logs, vec![start], vec![], vec![]).await;
    let call = plan.ids.call();
    for _ in 0..plan.random.usize(1..8) {
        let delta = plan.text();
        let delta = match plan.random.u32(..4) {
            0 => Delta::Reasoning { step, delta },
            1 => Delta::ToolInput { step, call, name: "echo".into(), delta },
            _ => Delta::Text { step, delta },
        };
        plan.note("push", format!("{delta:?}"));
        let _ = logs.0.push(delta.clone());
        let _ = logs.1.push(delta);
    }
    ask!(plan, note_found(&run.scope.app));
}

/// A step with calls, and the ids of these.
pub(super) fn step_end(plan: &mut ComparedPlan, step: u32, calls: usize) -> (StepEnd, Vec<CallId>) {
    let ids: Vec<CallId> = (0..calls).map(|_| plan.ids.call()).collect();
    let call = |plan: &mut ComparedPlan, id: CallId| Call {
        id,
        name: plan.loose_name(),
        input: plan.json(),
        raw: None,
        provider_id: plan.maybe(ComparedPlan::name),
    };
    let step = StepEnd {
        step,
        text: plan.text(),
        reasoning: plan.maybe(ComparedPlan::text),
        calls: ids.iter().map(|id| call(plan, *id)).collect(),
        usage: plan.usage(),
        finish: plan.one_of(&[Finish::Stop, Finish::ToolCalls, Finish::Length, Finish::Failed]),
        error: None,
        model: plan.maybe(ComparedPlan::name),
        dropped: vec![],
        provider: plan.maybe(ComparedPlan::json),
        fallback: if plan.once_in(4) { Some(plan.model()) } else { None },
        structured: None,
        prompt: None,
    };
    (step, ids)
}

pub(super) async fn step(plan: &mut ComparedPlan) {
    let Some(run) = plan.run_under_way().await else { return };
    let logs = plan.logs(&run);
    let number = plan.known.places.entry(run.id).or_default().step + 1;
    let calls = if plan.once_in(40) { 33 } else { plan.random.usize(..4) };
    let (mut step, ids) = step_end(plan, number, calls);
    if plan.once_in(25)
        && let [first, .., last] = step.calls.as_mut_slice()
    {
        last.id = first.id;
    }
    let jobs = plan.new_jobs();
    let event = Event::StepEnd(step);
    if plan.record(&logs, vec![event], jobs, vec![]).await.is_some() {
        let place = plan.known.places.entry(run.id).or_default();
        place.step = number;
        place.calls.extend(&ids);
        plan.known.calls.extend(ids.into_iter().map(|id| (run.id, id)));
    }
}

/// A step that is repeated or begins again, or an event that no rule knows in this place.
pub(super) async fn other_event(plan: &mut ComparedPlan) {
    let Some(run) = plan.run_under_way().await else { return };
    let logs = plan.logs(&run);
    let step = plan.known.places.entry(run.id).or_default().step;
    let (reason, model) = (plan.text(), plan.maybe(ComparedPlan::model));
    let event = match plan.random.u32(..4) {
        0 => Event::StepRetry(StepRetry { step, reason, after: 5, model }),
        1 => Event::Source(protocol::Source {
            kind: "document".into(),
            id: plan.name(),
            title: reason,
            place: plan.text(),
        }),
        2 => {
            let deep = (0..200).fold(json!(1), |value, _| json!([value]));
            let (step, _) = step_end(plan, step + 1, 0);
            Event::StepEnd(StepEnd { provider: Some(deep), ..step })
        }
        _ => Event::StepReset(StepReset { step, reason, model, usage: plan.maybe(ComparedPlan::usage) }),
    };
    plan.record(&logs, vec![event], vec![], vec![]).await;
}

pub(super) async fn finish(plan: &mut ComparedPlan) {
    let Some(run) = plan.run_under_way().await else { return };
    let logs = plan.logs(&run);
    let open = plan.known.places.entry(run.id).or_default().calls.clone();
    let mut events: Vec<Event> = Vec::new();
    if !plan.once_in(12) {
        events.extend(open.into_iter().map(|call| super::tool_calls::result(plan, call)));
    }
    let said = plan.ids.message();
    if !plan.once_in(4) {
        let memories_referenced = plan.pick(|known| &known.memories).map(|(_, id)| id.to_string());
        let answer = StreamComplete {
            message_id: said,
            text: plan.text(),
            memories_referenced: memories_referenced.into_iter().chain([plan.name()]).collect(),
            data: plan.maybe(ComparedPlan::json),
            usage: plan.usage(),
        };
        events.push(Event::StreamComplete(answer));
    }
    let statuses = [
        RunStatus::Completed,
        RunStatus::Completed,
        RunStatus::Failed,
        RunStatus::Cancelled,
        RunStatus::Running,
    ];
    let status = run.stop.map_or_else(|| plan.one_of(&statuses), store::Stop::status);
    let error = (status == RunStatus::Failed).then(|| Failure { code: plan.name(), message: plan.text() });
    events.push(Event::RunEnd(RunEnd { run_id: run.id, status, error, message_id: None }));
    let jobs = plan.new_jobs();
    if plan.record(&logs, events, jobs, vec![]).await.is_some() {
        plan.known.messages.push((run.thread, said));
    }
}

pub(super) async fn stop(plan: &mut ComparedPlan) {
    let (scope, id) = plan.some_run();
    if plan.once_in(3) {
        let apps = plan.maybe(|plan| vec![plan.app()]);
        let by = plan.loose_name();
        ask!(plan, cancel_as_admin(id, apps.clone(), by.clone()));
        return;
    }
    let (principal, once) = (plan.principal_of(&scope), plan.once());
    ask!(plan, cancel(&principal, id, once.clone()));
}

pub(super) async fn force_end(plan: &mut ComparedPlan) {
    let Some(mut run) = plan.run_under_way().await else { return };
    if plan.once_in(3) {
        run.epoch += 1;
    }
    let end = ForcedEnd {
        status: plan.one_of(&[RunStatus::Failed, RunStatus::Interrupted]),
        error: Failure { code: plan.name(), message: plan.text() },
        message: plan.ids.message(),
        cancelled: plan.json(),
        unknown: plan.json(),
    };
    ask!(plan, force_end(&run, end.clone()));
}

pub(super) async fn reserve(plan: &mut ComparedPlan) {
    let Some(run) = plan.run_under_way().await else { return };
    let logs = plan.logs(&run);
    let (call, bounds) = planned_call(plan);
    plan.note("reserve", format!("{:?}", (&call, &bounds)));
    let (one, other) = (logs.0.reserve(call, bounds).await, logs.1.reserve(call, bounds).await);
    plan.compare(one, other);
}

/// A call that may be too large for its bounds.
pub(super) fn planned_call(plan: &mut ComparedPlan) -> (PlannedCall, SpendBounds) {
    let call = PlannedCall {
        input_tokens: plan.random.u64(..3_000),
        output_tokens: plan.random.u64(..3_000),
        input_cost: Cost(plan.random.u64(..100_000)),
        output_price: plan.random.f64() * 100.0,
    };
    let bound = |plan: &mut ComparedPlan| plan.maybe(|plan| plan.random.u64(..1_000_000));
    let bounds = SpendBounds {
        run_tokens: bound(plan),
        run_cost: bound(plan).map(Cost),
        day_tokens: bound(plan),
        day_cost: bound(plan).map(Cost),
        tokens_per_minute: bound(plan),
        tokens_per_day: bound(plan),
    };
    (call, bounds)
}

pub(super) async fn look(plan: &mut ComparedPlan) {
    let (scope, id) = plan.some_run();
    let principal = plan.principal_of(&scope);
    let Some(row) = ask!(plan, run(&principal, id)) else { return };
    match plan.random.u32(..3) {
        0 => drop(ask!(plan, facts(id))),
        1 => {
            let after = plan.random.u64(..40);
            let run = plan.maybe(|_| id);
            ask!(plan, events(row.thread, run, after));
        }
        _ => {
            ask!(plan, proposals_of(id));
            ask!(plan, client_calls_of(id));
        }
    }
}
