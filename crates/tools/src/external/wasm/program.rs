//! A module that has been checked and compiled, and the limits of its instances.

use serde_json::Value;
use tokio_util::sync::CancellationToken;
use wasmi::{
    CompilationMode, Config, Engine, ExternType, Instance, Module, Store, StoreLimits, StoreLimitsBuilder,
    TrapCode, ValType,
};

use super::module_call::{ALLOCATE, CALL, MEMORY, ModuleCall};
use crate::Failed;

/// Calls within calls.
const MAX_CALL_DEPTH: usize = 4_096;

/// Bytes of all local variables of the calls within calls.
const MAX_STACK_BYTES: usize = 1024 * 1024;

const MAX_TABLES: usize = 4;
const MAX_TABLE_ELEMENTS: usize = 64 * 1024;

/// The fuel of a start function. It cannot be interrupted, so this is little.
const MAX_START_FUEL: u64 = 10_000_000;

const BYTES_PER_PAGE: u64 = 64 * 1024;

const CONTRACT: &str = "a tool exports `memory`, `rondo_alloc(i32) -> i32` and `rondo_call(i32, i32) -> i64`, \
                        and imports nothing";

pub(super) struct WasmProgram {
    engine: Engine,
    module: Module,
    fuel: u64,
    memory_bytes: usize,
}

impl WasmProgram {
    pub(super) fn load(module: &[u8], fuel: u64, memory_bytes: usize) -> Result<Self, String> {
        let engine = Engine::new(&config());
        let module = Module::new(&engine, module)
            .map_err(|error| format!("the module is not WebAssembly that can be used here: {error}"))?;
        check_imports(&module)?;
        check_memory(&module, memory_bytes)?;
        check_function(&module, ALLOCATE, &[ValType::I32], &[ValType::I32])?;
        check_function(&module, CALL, &[ValType::I32, ValType::I32], &[ValType::I64])?;
        let program = Self { engine, module, fuel, memory_bytes };
        program.instance().map_err(|error| not_started(&error))?;
        Ok(program)
    }

    /// The answer of the module to the arguments. Ends soon after `stop` is cancelled.
    pub(super) fn run(&self, arguments: &str, stop: &CancellationToken) -> Result<Value, Failed> {
        let (store, instance, left) = self
            .instance()
            .map_err(|error| Failed::new("crashed", format!("the tool cannot start: {error}")))?;
        ModuleCall::new(store, instance, left, stop).answer(arguments)
    }

    /// A fresh instance, started, and the fuel that is left.
    fn instance(&self) -> Result<(Store<StoreLimits>, Instance, u64), wasmi::Error> {
        let mut store = Store::new(&self.engine, limits(self.memory_bytes, MAX_TABLE_ELEMENTS));
        store.limiter(|limits| limits);
        let given = self.fuel.min(MAX_START_FUEL);
        store.set_fuel(given)?;
        let instance = Instance::new(&mut store, &self.module, &[])?;
        // From now on tables stay as they are: wasmi 2.0 cannot resume a call that ran out of fuel in `table.grow`.
        *store.data_mut() = limits(self.memory_bytes, 0);
        let unused = store.get_fuel()?;
        store.set_fuel(0)?;
        Ok((store, instance, self.fuel.saturating_sub(given.saturating_sub(unused))))
    }
}

fn config() -> Config {
    let mut config = Config::default();
    config
        .consume_fuel(true)
        // At once, so that no call pays for it and a module that cannot be compiled is refused when it is loaded.
        .compilation_mode(CompilationMode::Eager)
        .ignore_custom_sections(true)
        .wasm_multi_memory(false)
        .set_max_recursion_depth(MAX_CALL_DEPTH)
        .set_max_stack_height(MAX_STACK_BYTES);
    config
}

fn check_imports(module: &Module) -> Result<(), String> {
    match module.imports().next() {
        Some(import) => {
            Err(format!("the module imports `{}.{}`; {CONTRACT}", import.module(), import.name()))
        }
        None => Ok(()),
    }
}

fn check_memory(module: &Module, memory_bytes: usize) -> Result<(), String> {
    let memory = module.get_export(MEMORY);
    let Some(memory) = memory.as_ref().and_then(ExternType::memory) else {
        return Err(format!("the module exports no memory named `{MEMORY}`; {CONTRACT}"));
    };
    let bytes = memory.minimum().saturating_mul(BYTES_PER_PAGE);
    if usize::try_from(bytes).is_ok_and(|bytes| bytes <= memory_bytes) {
        return Ok(());
    }
    Err(format!(
        "the module starts with {bytes} bytes of memory, but its limit is {memory_bytes}; raise the limit, \
         or build the module with less memory"
    ))
}

fn check_function(
    module: &Module,
    name: &str,
    parameters: &[ValType],
    results: &[ValType],
) -> Result<(), String> {
    let function = module.get_export(name);
    let Some(function) = function.as_ref().and_then(ExternType::func) else {
        return Err(format!("the module exports no function `{name}`; {CONTRACT}"));
    };
    if function.params() == parameters && function.results() == results {
        return Ok(());
    }
    let (takes, gives) = (function.params(), function.results());
    Err(format!("the module's `{name}` takes {takes:?} and gives {gives:?}; {CONTRACT}"))
}

fn not_started(error: &wasmi::Error) -> String {
    match error.as_trap_code() {
        Some(TrapCode::OutOfFuel) => {
            format!(
                "the module's start function does not end within {MAX_START_FUEL} fuel, or within the tool's \
                 own limit if that is lower"
            )
        }
        _ => format!("the module cannot be started: {error}"),
    }
}

/// The limits of one instance. The code is refused more, and may go on without.
fn limits(memory_bytes: usize, table_elements: usize) -> StoreLimits {
    StoreLimitsBuilder::new()
        .memory_size(memory_bytes)
        .table_elements(table_elements)
        .instances(1)
        .memories(1)
        .tables(MAX_TABLES)
        .build()
}
