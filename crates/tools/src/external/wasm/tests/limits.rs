//! Behaviour at the bounds of fuel, memory, time and number.

use std::sync::Arc;

use super::*;

const FOREVER: &str = "(loop (br 0)) (i64.const 0)";

/// Mixes numbers through calls, memory and floats, for longer than one slice of fuel, and answers with eight digits.
const MIX: &str = "
    (func $step (param $hash i32) (param $i i32) (result i32)
        (i32.store (i32.const 512) (i32.xor (local.get $hash) (local.get $i)))
        (i32.add (i32.mul (i32.load (i32.const 512)) (i32.const 0x01000193))
            (i32.trunc_f64_u (f64.sqrt (f64.convert_i32_u (local.get $i))))))
    (func (export \"rondo_call\") (param i32 i32) (result i64)
        (local $hash i32) (local $i i32)
        (loop $next
            (local.set $hash (call $step (local.get $hash) (local.get $i)))
            (local.set $i (i32.add (local.get $i) (i32.const 1)))
            (br_if $next (i32.lt_u (local.get $i) (i32.const 300000))))
        (i32.store8 (i32.const 0) (i32.const 49))
        (local.set $i (i32.const 1))
        (loop $digit
            (i32.store8 (local.get $i) (i32.add (i32.const 48) (i32.rem_u (local.get $hash) (i32.const 10))))
            (local.set $hash (i32.div_u (local.get $hash) (i32.const 10)))
            (local.set $i (i32.add (local.get $i) (i32.const 1)))
            (br_if $digit (i32.lt_u (local.get $i) (i32.const 9))))
        (i64.const 9))";

fn mixed() -> u64 {
    let mut hash = (0_u32..300_000)
        .fold(0_u32, |hash, i| (hash ^ i).wrapping_mul(0x0100_0193).wrapping_add(f64::from(i).sqrt() as u32));
    let mut number = 1;
    for _ in 0..8 {
        number = number * 10 + u64::from(hash % 10);
        hash /= 10;
    }
    number
}

/// Fuel that a call of `MIX` needs, to the last unit.
fn needed(bytes: &[u8]) -> u64 {
    let (mut less, mut enough) = (0, FUEL);
    while less + 1 < enough {
        let middle = less.midpoint(enough);
        let program = WasmProgram::load(bytes, middle, MEMORY_BYTES).unwrap();
        match program.run("{}", &CancellationToken::new()) {
            Ok(answer) => {
                assert_eq!(answer, json!(mixed()));
                enough = middle;
            }
            Err(failed) => {
                assert_eq!(failed.error, "out_of_fuel");
                less = middle;
            }
        }
    }
    enough
}

#[test]
fn fuel_is_given_by_the_slice_and_ends_to_the_unit() {
    let bytes = module(MIX);
    let fuel = needed(&bytes);
    assert!(fuel > 3_000_000, "{fuel}: one slice would do");
    assert_eq!(needed(&bytes), fuel);
}

#[tokio::test]
async fn code_without_end_runs_out_of_fuel() {
    assert_eq!(failure(&tool(FOREVER)).await.0, "out_of_fuel");
    let in_allocation = "(module (memory (export \"memory\") 1)
        (func (export \"rondo_alloc\") (param i32) (result i32) (loop (br 0)) (i32.const 8))
        (func (export \"rondo_call\") (param i32 i32) (result i64) (i64.const 0)))";
    let tool = load(&wat::parse_str(in_allocation).unwrap()).unwrap();
    assert_eq!(failure(&tool).await.0, "out_of_fuel");
    let tool = declared(&module(ECHO), 0, MEMORY_BYTES, LONG);
    let without = WasmTool::new(&tool).unwrap();
    assert_eq!(failure(&without).await.0, "out_of_fuel");
}

/// Answers with one digit: the value of an expression.
fn digit(rest: &str, expression: &str) -> WasmTool {
    load(&module(&format!(
        "{rest} (func (export \"rondo_call\") (param i32 i32) (result i64)
            (i32.store8 (i32.const 0) (i32.add (i32.const 48) {expression}))
            (i64.const 1))"
    )))
    .unwrap()
}

#[tokio::test]
async fn memory_and_tables_beyond_the_limit_are_refused_to_the_code() {
    let is_refused = |grow: &str| format!("(i32.eq {grow} (i32.const -1))");
    for (expression, refused) in [
        ("(memory.grow (i32.const 15))", 0),
        ("(memory.grow (i32.const 16))", 1),
        ("(memory.grow (i32.const 65536))", 1),
        ("(memory.grow (i32.const -1))", 1),
        ("(table.grow (ref.null func) (i32.const 0))", 0),
        ("(table.grow (ref.null func) (i32.const 1))", 1),
        ("(table.grow (ref.null func) (i32.const -1))", 1),
    ] {
        let tool = digit("(table 2 funcref)", &is_refused(expression));
        assert_eq!(ask(&tool, json!({})).await, Ok(json!(refused)), "{expression}");
    }
}

#[tokio::test]
async fn nothing_stays_from_one_call_to_the_next() {
    let rest = "(global $calls (mut i32) (i32.const 0))
        (func $count (result i32)
            (global.set $calls (i32.add (global.get $calls) (i32.const 1)))
            (i32.store (i32.const 256) (i32.add (i32.load (i32.const 256)) (i32.const 1)))
            (i32.add (global.get $calls) (i32.load (i32.const 256))))
        (func $begin (i32.store (i32.const 256) (i32.const 5))) (start $begin)";
    let tool = digit(rest, "(call $count)");
    for _ in 0..3 {
        assert_eq!(ask(&tool, json!({})).await, Ok(json!(7)));
    }
}

#[tokio::test]
async fn an_answer_has_at_most_a_mebibyte() {
    let long = |length: u32| {
        let text = format!(
            "(module (memory (export \"memory\") 17)
                (func (export \"rondo_alloc\") (param i32) (result i32) (i32.const 8))
                (func (export \"rondo_call\") (param i32 i32) (result i64)
                    (memory.fill (i32.const 0) (i32.const 32) (i32.const {length}))
                    (i32.store8 (i32.const 0) (i32.const 55))
                    (i64.const {length})))"
        );
        let module = wat::parse_str(text).unwrap();
        WasmTool::new(&declared(&module, FUEL, 17 << 16, LONG)).unwrap()
    };
    assert_eq!(ask(&long(1 << 20), json!({})).await, Ok(json!(7)));
    let (error, message) = failure(&long((1 << 20) + 1)).await;
    assert_eq!((error, message.contains("has 1048577 bytes")), ("bad_answer", true), "{message}");
    assert_eq!(failure(&tool("(i64.const -1)")).await.0, "bad_answer");
}

fn endless(timeout: Duration) -> WasmTool {
    let module = module(&format!("(func (export \"rondo_call\") (param i32 i32) (result i64) {FOREVER})"));
    WasmTool::new(&declared(&module, u64::MAX, MEMORY_BYTES, timeout)).unwrap()
}

/// Waits until no code of the tool computes any more.
async fn idle(tool: &WasmTool) {
    let all = Arc::clone(&tool.places).acquire_many_owned(u32::try_from(MAX_CALLS_AT_ONCE).unwrap());
    drop(tokio::time::timeout(Duration::from_secs(20), all).await.unwrap().unwrap());
}

/// Waits until `places` places are free.
async fn free(tool: &WasmTool, places: usize) {
    while tool.places.available_permits() != places {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn the_time_limit_ends_the_call_and_the_code() {
    let tool = endless(Duration::from_millis(50));
    let (error, message) = failure(&tool).await;
    assert_eq!((error, message.as_str()), ("timeout", "the tool gave no answer within 50ms"));
    idle(&tool).await;
}

#[tokio::test]
async fn a_stop_ends_the_call_and_the_code() {
    let (tool, world, stop) = (endless(LONG), World::new(), CancellationToken::new());
    let calling = Calling { stop: &stop, ..world.calling(json!({})) };
    let (answer, ()) = tokio::join!(tool.call(calling), async {
        free(&tool, MAX_CALLS_AT_ONCE - 1).await;
        stop.cancel();
    });
    assert_eq!(answer.unwrap_err().error, "stopped");
    idle(&tool).await;
    let calling = Calling { stop: &stop, ..world.calling(json!({})) };
    assert_eq!(tool.call(calling).await.unwrap_err().error, "stopped");
}

#[tokio::test]
async fn a_call_that_is_dropped_ends_its_code() {
    let (tool, world) = (endless(LONG), World::new());
    tokio::select! {
        _ = tool.call(world.calling(json!({}))) => panic!("it has no end"),
        () = free(&tool, MAX_CALLS_AT_ONCE - 1) => {}
    }
    idle(&tool).await;
}

#[tokio::test]
async fn only_so_many_calls_compute_at_once() {
    let (tool, world) = (endless(LONG), World::new());
    let (first, last) = (CancellationToken::new(), CancellationToken::new());
    let call = |stop| tool.call(Calling { stop, ..world.calling(json!({})) });
    let four = async { tokio::join!(call(&first), call(&first), call(&first), call(&first)) };
    let fifth = async {
        free(&tool, 0).await;
        let (answer, ()) = tokio::join!(call(&last), async {
            tokio::task::yield_now().await;
            last.cancel();
        });
        let places = tool.places.available_permits();
        first.cancel();
        (answer, places)
    };
    let (_, (answer, places)) = tokio::join!(four, fifth);
    assert_eq!((answer.unwrap_err().error, places), ("stopped", 0));
    idle(&tool).await;
}
