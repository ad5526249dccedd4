//! One call of a module: arguments in, fuel by the slice, the answer out.

use std::ops::Range;

use serde_json::Value;
use tokio_util::sync::CancellationToken;
use wasmi::{Instance, Memory, Store, StoreLimits, TypedResumableCall, WasmParams, WasmResults};

use super::stop_failure;
use crate::Failed;

/// The names of a module's exports.
pub(super) const MEMORY: &str = "memory";
pub(super) const ALLOCATE: &str = "rondo_alloc";
pub(super) const CALL: &str = "rondo_call";

/// How much is computed between two looks at whether to stop: a few milliseconds.
const FUEL_PER_SLICE: u64 = 1_000_000;

/// Bytes of an answer.
const MAX_ANSWER_BYTES: usize = 1024 * 1024;

pub(super) struct ModuleCall<'a> {
    store: Store<StoreLimits>,
    instance: Instance,
    /// Not yet given to the store.
    fuel: u64,
    stop: &'a CancellationToken,
}

impl<'a> ModuleCall<'a> {
    pub(super) fn new(
        store: Store<StoreLimits>,
        instance: Instance,
        fuel: u64,
        stop: &'a CancellationToken,
    ) -> Self {
        Self { store, instance, fuel, stop }
    }

    pub(super) fn answer(mut self, arguments: &str) -> Result<Value, Failed> {
        let length = u32::try_from(arguments.len())
            .map_err(|_| Failed::new("invalid_arguments", "the arguments are too long for the tool"))?;
        let pointer = self.call::<i32, i32>(ALLOCATE, length.cast_signed())?.cast_unsigned();
        if pointer == 0 && length > 0 {
            return Err(Failed::new(
                "out_of_memory",
                "the tool has not enough memory for arguments of this length",
            ));
        }
        let memory = self.memory()?.data_mut(&mut self.store);
        let Some(place) = span(pointer, length).and_then(|span| memory.get_mut(span)) else {
            return Err(bad_answer("`rondo_alloc` returned an address outside its memory"));
        };
        place.copy_from_slice(arguments.as_bytes());
        let answer = self
            .call::<(i32, i32), i64>(CALL, (pointer.cast_signed(), length.cast_signed()))?
            .cast_unsigned();
        let (pointer, length) = ((answer >> u32::BITS) as u32, answer as u32);
        if usize::try_from(length).is_ok_and(|length| length > MAX_ANSWER_BYTES) {
            return Err(bad_answer(&format!(
                "its answer has {length} bytes; at most {MAX_ANSWER_BYTES} are allowed"
            )));
        }
        let memory = self.memory()?.data(&self.store);
        let Some(bytes) = span(pointer, length).and_then(|span| memory.get(span)) else {
            return Err(bad_answer("`rondo_call` returned an address outside its memory"));
        };
        read(bytes)
    }

    fn memory(&self) -> Result<Memory, Failed> {
        self.instance.get_memory(&self.store, MEMORY).ok_or_else(|| bad_answer("it has no memory"))
    }

    fn call<Parameters, Results>(&mut self, name: &str, parameters: Parameters) -> Result<Results, Failed>
    where
        Parameters: WasmParams,
        Results: WasmResults,
    {
        let function = self
            .instance
            .get_typed_func::<Parameters, Results>(&self.store, name)
            .map_err(|error| crash_failure(&error))?;
        self.give_fuel(0)?;
        let mut call =
            function.call_resumable(&mut self.store, parameters).map_err(|error| crash_failure(&error))?;
        loop {
            match call {
                TypedResumableCall::Finished(results) => return Ok(results),
                TypedResumableCall::OutOfFuel(paused) => {
                    self.give_fuel(paused.required_fuel())?;
                    call = paused.resume(&mut self.store).map_err(|error| crash_failure(&error))?;
                }
                TypedResumableCall::HostTrap(trap) => return Err(crash_failure(trap.host_error())),
            }
        }
    }

    /// The next slice, which is at least what the code needs to get on at all.
    fn give_fuel(&mut self, required: u64) -> Result<(), Failed> {
        if self.stop.is_cancelled() {
            return Err(stop_failure());
        }
        let unused = self.store.get_fuel().map_err(|error| crash_failure(&error))?;
        let left = self.fuel.saturating_add(unused);
        if left < required {
            let message = "the tool reached its computation limit (fuel) for one call, and gave no answer";
            return Err(Failed::new("out_of_fuel", message));
        }
        let slice = left.min(FUEL_PER_SLICE.max(required));
        self.fuel = left.saturating_sub(slice);
        self.store.set_fuel(slice).map_err(|error| crash_failure(&error))
    }
}

fn read(bytes: &[u8]) -> Result<Value, Failed> {
    let text = std::str::from_utf8(bytes)
        .map_err(|error| bad_answer(&format!("its answer is not UTF-8: {error}")))?;
    let answer: Value = serde_json::from_str(text)
        .map_err(|error| bad_answer(&format!("its answer is not JSON: {error}")))?;
    match error_of(&answer) {
        Some(error) => Err(Failed::new("tool_error", error)),
        None => Ok(answer),
    }
}

/// An object with nothing but the text of an error is the tool's way to say that it failed.
fn error_of(answer: &Value) -> Option<&str> {
    let fields = answer.as_object()?;
    fields.get("error").filter(|_| fields.len() == 1)?.as_str()
}

fn span(pointer: u32, length: u32) -> Option<Range<usize>> {
    let pointer = usize::try_from(pointer).ok()?;
    Some(pointer..pointer.checked_add(usize::try_from(length).ok()?)?)
}

fn crash_failure(error: &wasmi::Error) -> Failed {
    Failed::new("crashed", format!("the tool's code failed: {error}"))
}

fn bad_answer(what: &str) -> Failed {
    Failed::new("bad_answer", format!("the tool is broken: {what}"))
}
