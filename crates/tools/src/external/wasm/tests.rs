//! Modules written for the purpose: good ones, broken ones, and ones that want too much.

mod example;
mod limits;

use std::time::Duration;

use proptest::prelude::*;
use protocol::Effect;
use serde_json::{Value, json};

use super::*;
use crate::tests::World;

const FUEL: u64 = 100_000_000;
const MEMORY_BYTES: usize = 1024 * 1024;
const LONG: Duration = Duration::from_secs(600);

/// The arguments, given back.
const ECHO: &str = "(func (export \"rondo_call\") (param i32 i32) (result i64)
    (i64.or (i64.shl (i64.extend_i32_u (local.get 0)) (i64.const 32)) (i64.extend_i32_u (local.get 1))))";

fn load(module: &[u8]) -> Result<WasmTool, String> {
    WasmTool::new(&declared(module, FUEL, MEMORY_BYTES, LONG))
}

fn declared(module: &[u8], fuel: u64, memory_bytes: usize, timeout: Duration) -> SandboxTool {
    let parameters = json!({ "type": "object" });
    SandboxTool { parameters, module: module.into(), fuel, memory_bytes, timeout }
}

/// A module with one page of memory, room for arguments at 1024, and what else it is to have.
fn module(rest: &str) -> Vec<u8> {
    let text = format!(
        "(module
            (memory (export \"memory\") 1)
            (func (export \"rondo_alloc\") (param i32) (result i32) (i32.const 1024))
            {rest})"
    );
    wat::parse_str(text).unwrap()
}

/// A tool whose `rondo_call` has this body.
fn tool(body: &str) -> WasmTool {
    load(&module(&format!("(func (export \"rondo_call\") (param i32 i32) (result i64) {body})"))).unwrap()
}

/// A tool that always gives these bytes.
fn answering(bytes: &[u8]) -> WasmTool {
    let data: String = bytes.iter().map(|byte| format!("\\{byte:02x}")).collect();
    let rest = format!(
        "(data (i32.const 16) \"{data}\")
         (func (export \"rondo_call\") (param i32 i32) (result i64) (i64.const {}))",
        (16_u64 << 32) | bytes.len() as u64
    );
    load(&module(&rest)).unwrap()
}

async fn ask(tool: &WasmTool, input: Value) -> Result<Value, Failed> {
    let world = World::new();
    tool.call(world.calling(input)).await.map(|done| done.output)
}

async fn failure(tool: &WasmTool) -> (&'static str, String) {
    let Failed { error, message, .. } = ask(tool, json!({})).await.unwrap_err();
    (error, message)
}

#[tokio::test]
async fn arguments_go_in_and_answers_come_out_as_json() {
    let echo = load(&module(ECHO)).unwrap();
    let input = json!({ "text": "Übung \"macht\"\n den Meister 🎓", "n": 1.5, "deep": [[{}], null] });
    assert_eq!(ask(&echo, input.clone()).await, Ok(input));
    for text in ["null", "42", "\"words\"", "[1, 2]", " {\"a\": {}} "] {
        let expected: Value = serde_json::from_str(text).unwrap();
        assert_eq!(ask(&answering(text.as_bytes()), json!({})).await, Ok(expected));
    }
}

#[tokio::test]
async fn an_object_with_only_an_error_is_a_failure() {
    let failed = ask(&answering(br#"{"error": "there is no text"}"#), json!({})).await;
    assert_eq!(failed, Err(Failed::new("tool_error", "there is no text")));
    for text in [r#"{"error": 7}"#, r#"{"error": "e", "partial": 1}"#, r#""error""#, r#"[{"error": "e"}]"#] {
        let expected: Value = serde_json::from_str(text).unwrap();
        assert_eq!(ask(&answering(text.as_bytes()), json!({})).await, Ok(expected));
    }
}

#[test]
fn a_tool_reads_and_stays_inside() {
    let (name, description) = ("count".to_owned(), "Counts.".to_owned());
    let told = crate::ToolSpec { name, description, parameters: json!({ "type": "object" }) };
    let OfferedTool { spec, facts, .. } = tool("unreachable").into_offered_tool(told);
    assert_eq!((spec.name.as_str(), spec.description.as_str()), ("count", "Counts."));
    assert_eq!(spec.parameters, json!({ "type": "object" }));
    assert_eq!((facts.effect, facts.external, facts.lasting), (Effect::Read, false, false));
}

#[test]
fn a_module_that_is_no_tool_is_refused_with_what_to_do() {
    let whole = "(memory (export \"memory\") 1) (func (export \"rondo_alloc\") (param i32) (result i32) (i32.const 8))";
    let call = "(func (export \"rondo_call\") (param i32 i32) (result i64) (i64.const 0))";
    let start_loop = "(func $begin (loop (br 0))) (start $begin)";
    for (text, said) in [
        ("", "exports no memory named `memory`"),
        ("(memory 1)", "exports no memory named `memory`"),
        ("(func (export \"memory\"))", "exports no memory named `memory`"),
        ("(memory (export \"memory\") 1)", "exports no function `rondo_alloc`"),
        (whole, "exports no function `rondo_call`"),
        (
            &format!("{whole} (func (export \"rondo_call\") (param i32) (result i32) (i32.const 0))"),
            "`rondo_call` takes [I32] and gives [I32]",
        ),
        (
            &format!("{whole} (global (export \"rondo_call\") i32 (i32.const 0))"),
            "exports no function `rondo_call`",
        ),
        (
            &format!("(import \"env\" \"abort\" (func (param i32))) {whole} {call}"),
            "imports `env.abort`; a tool exports `memory`, `rondo_alloc(i32) -> i32` and",
        ),
        (&format!("(import \"js\" \"table\" (table 1 funcref)) {whole} {call}"), "imports `js.table`"),
        ("(memory (export \"memory\") 17)", "starts with 1114112 bytes of memory, but its limit is 1048576"),
        ("(memory (export \"memory\") 65536)", "starts with 4294967296 bytes of memory"),
        ("(memory (export \"memory\") 1) (memory 1)", "not WebAssembly that can be used here"),
        (&format!("{whole} {call} {start_loop}"), "start function does not end within 10000000 fuel"),
        (
            &format!("{whole} {call} (func $begin unreachable) (start $begin)"),
            "cannot be started: wasm `unreach",
        ),
        (&format!("{whole} {call} (data (i32.const 65536) \"x\")"), "cannot be started"),
        (&format!("{whole} {call} (table 65537 funcref)"), "cannot be started"),
        (&format!("{whole} {call} {}", "(table 1 funcref) ".repeat(5)), "cannot be started"),
    ] {
        let module = wat::parse_str(format!("(module {text})")).unwrap();
        let refusal = load(&module).err().unwrap_or_else(|| panic!("accepted: {text}"));
        assert!(refusal.contains(said), "{text}: {refusal}");
    }
}

#[test]
fn what_is_not_webassembly_is_refused() {
    let good = module(ECHO);
    let component = wat::parse_str("(component)").unwrap();
    let ill_typed = wat::parse_str("(module (func (result i32) (i64.const 0)))").unwrap();
    for bytes in
        [&b""[..], b"(module)", b"\0asm", b"\0asm\x01\0\0", &good[..good.len() - 1], &component, &ill_typed]
    {
        let refusal = load(bytes).err().unwrap();
        assert!(refusal.starts_with("the module is not WebAssembly that can be used here: "), "{refusal}");
    }
}

#[tokio::test]
async fn code_that_breaks_off_is_a_failure_and_the_next_call_works() {
    for (body, said) in [
        ("unreachable", "`unreachable`"),
        ("(i64.load (i32.const 65529))", "out of bounds memory access"),
        ("(i64.load (i32.const -1))", "out of bounds memory access"),
        ("(memory.fill (i32.const 0) (i32.const 0) (i32.const 65537)) (i64.const 0)", "out of bounds"),
        ("(i64.div_u (i64.const 1) (i64.const 0))", "integer divide by zero"),
        ("(i64.div_s (i64.const 0x8000000000000000) (i64.const -1))", "integer overflow"),
        ("(i64.trunc_f64_s (f64.div (f64.const 0) (f64.const 0)))", "invalid conversion to integer"),
    ] {
        let (error, message) = failure(&tool(body)).await;
        assert_eq!((error, message.contains(said)), ("crashed", true), "{body}: {message}");
    }
    let recursion = "(func $deeper (export \"rondo_call\") (param i32 i32) (result i64)
        (i64.add (i64.const 1) (call $deeper (local.get 0) (local.get 1))))";
    let deep = load(&module(recursion)).unwrap();
    for _ in 0..2 {
        let (error, message) = failure(&deep).await;
        assert_eq!((error, message.contains("call stack exhausted")), ("crashed", true), "{message}");
    }
    let on_text = "(table 1 funcref) (type $none (func (result i64)))
        (func (export \"rondo_call\") (param i32 i32) (result i64)
            (if (i32.eq (i32.load8_u (local.get 0)) (i32.const 34)) (then unreachable))
            (call_indirect (type $none) (i32.const 0)))";
    let picky = load(&module(on_text)).unwrap();
    assert_eq!(ask(&picky, json!("text")).await.unwrap_err().error, "crashed");
    assert_eq!(ask(&picky, json!(7)).await.unwrap_err().error, "crashed");
}

#[tokio::test]
async fn an_answer_that_is_none_is_a_failure() {
    for (bytes, said) in [
        (&b""[..], "not JSON"),
        (b"NaN", "not JSON"),
        (b"{\"grade\": Infinity}", "not JSON"),
        (b"1e999", "not JSON: number out of range"),
        (b"{} {}", "not JSON: trailing characters"),
        (b"\"\xff\"", "not UTF-8"),
        (b"\"\xed\xa0\x80\"", "not UTF-8"),
        ("[".repeat(5000).as_bytes(), "not JSON: recursion limit"),
    ] {
        let (error, message) = failure(&answering(bytes)).await;
        assert_eq!((error, message.contains(said)), ("bad_answer", true), "{message}");
    }
    let (error, message) = failure(&tool("(i64.const 0x0000ffff_00000002)")).await;
    assert_eq!(
        (error, message.contains("`rondo_call` returned an address outside")),
        ("bad_answer", true),
        "{message}"
    );
    let (error, message) = failure(&tool("(i64.const 0xffffffff_00100000)")).await;
    assert_eq!(
        (error, message.contains("`rondo_call` returned an address outside")),
        ("bad_answer", true),
        "{message}"
    );
    for (at, expected) in [(65535, "bad_answer"), (-1, "bad_answer"), (0, "out_of_memory")] {
        let text = format!(
            "(module (memory (export \"memory\") 1) {ECHO}
                (func (export \"rondo_alloc\") (param i32) (result i32) (i32.const {at})))"
        );
        let tool = load(&wat::parse_str(text).unwrap()).unwrap();
        assert_eq!(failure(&tool).await.0, expected);
    }
}

proptest! {
    #[test]
    fn no_bytes_harm_the_process(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let headed = [b"\0asm\x01\0\0\0", bytes.as_slice()].concat();
        prop_assert!(load(&bytes).is_err());
        prop_assert!(load(&headed).is_err());
    }

    #[test]
    fn no_damage_to_a_module_harms_the_process(
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        arguments in ".{0,40}",
    ) {
        let mut bytes = module(ECHO);
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Ok(program) = WasmProgram::load(&bytes, 100_000, MEMORY_BYTES) {
            let _ = program.run(&json!({ "text": arguments }).to_string(), &CancellationToken::new());
        }
    }
}
