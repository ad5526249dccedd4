//! Personas: a scope's own, by name, within bounds, and who answers in threads.

use protocol::{Event, Ids, Scope};
use serde_json::json;
use store::{
    Error, MAX_PERSONA_BYTES, MAX_PERSONAS_PER_SCOPE, NewPersonaRow, NewThreadRow, PageOf, PersonaRow,
    Target, ThreadEdit,
};

use super::elsewhere;
use crate::support::{Fixture, after, once, principal, scope};

const ALL: PageOf<u64> = PageOf { after: None, limit: 1_000 };

fn new(id: &str, name: &str) -> NewPersonaRow {
    let settings = json!({ "temperature": 0.3, "model": "m" });
    NewPersonaRow { id: id.into(), name: name.into(), prompt: "Be brief.".into(), settings }
}

async fn listed(fixture: &Fixture, scope: &Scope) -> Vec<String> {
    fixture.store.personas(scope, ALL).await.unwrap().rows.into_iter().map(|row| row.id).collect()
}

#[tokio::test]
async fn a_persona_is_added_changed_and_deleted_in_its_scope() {
    let clock = std::sync::Arc::new(crate::support::Forward::default());
    let fixture = Fixture::by(clock.clone());
    let alice = scope("alice");
    let added = fixture.store.add_persona(&alice, new("b", "Ada"), None).await.unwrap();
    let expected = PersonaRow {
        id: "b".into(),
        name: "Ada".into(),
        prompt: "Be brief.".into(),
        settings: r#"{"temperature":0.3,"model":"m"}"#.into(),
        created_at: after(0),
        updated_at: after(0),
    };
    assert_eq!(added, expected);
    fixture.store.add_persona(&alice, new("a", "Bo"), None).await.unwrap();
    assert_eq!(listed(&fixture, &alice).await, ["b", "a"], "by name");
    let there = fixture.store.add_persona(&alice, new("b", "Cy"), None).await;
    assert!(matches!(there, Err(Error::Changed(words)) if words == "there is a persona b already"));
    clock.to(5);
    for stranger in [scope("mallory"), elsewhere()] {
        assert_eq!(fixture.store.persona(&stranger, "b").await.unwrap(), None);
        assert!(listed(&fixture, &stranger).await.is_empty());
        let changed = fixture.store.change_persona(&stranger, new("b", "Cy"), None).await;
        assert!(matches!(changed, Err(Error::NotFound("persona"))));
        let deleted = fixture.store.delete_persona(&stranger, "b", None).await;
        assert!(matches!(deleted, Err(Error::NotFound("persona"))));
    }
    let changed = fixture.store.change_persona(&alice, new("b", "Cy"), None).await.unwrap();
    assert_eq!(changed, PersonaRow { name: "Cy".into(), updated_at: after(5), ..expected });
    assert_eq!(fixture.store.persona(&alice, "b").await.unwrap(), Some(changed));
    fixture.store.delete_persona(&alice, "b", None).await.unwrap();
    assert_eq!(fixture.store.persona(&alice, "b").await.unwrap(), None);
    assert_eq!(listed(&fixture, &alice).await, ["a"]);
}

#[tokio::test]
async fn a_change_of_a_persona_happens_once_under_a_key() {
    let fixture = Fixture::new();
    let alice = scope("alice");
    let added = fixture.store.add_persona(&alice, new("a", "Ada"), once("add", 1)).await.unwrap();
    assert_eq!(fixture.store.add_persona(&alice, new("a", "Ada"), once("add", 1)).await.unwrap(), added);
    let other = fixture.store.add_persona(&alice, new("b", "Ada"), once("add", 2)).await;
    assert!(matches!(other, Err(Error::KeyReused)));
    fixture.store.change_persona(&alice, new("a", "Bo"), once("change", 1)).await.unwrap();
    let last = fixture.store.change_persona(&alice, new("a", "Cy"), None).await.unwrap();
    let again = fixture.store.change_persona(&alice, new("a", "Bo"), once("change", 1)).await.unwrap();
    assert_eq!(again, last, "a second time gives what there is now");
    for _ in 0..2 {
        fixture.store.delete_persona(&alice, "a", once("delete", 1)).await.unwrap();
    }
    let gone = fixture.store.add_persona(&alice, new("a", "Ada"), once("add", 1)).await;
    assert!(matches!(gone, Err(Error::NotFound("persona"))));
    let refused = fixture.store.delete_persona(&alice, "a", once("again", 1)).await;
    assert!(matches!(refused, Err(Error::NotFound("persona"))));
}

#[tokio::test]
async fn prompts_have_so_many_bytes_and_there_are_so_many_personas() {
    let fixture = Fixture::new();
    let alice = scope("alice");
    for (id, bytes, good) in
        [("a", 0, true), ("b", MAX_PERSONA_BYTES, true), ("c", MAX_PERSONA_BYTES + 1, false)]
    {
        let long = NewPersonaRow { prompt: "x".repeat(bytes), ..new(id, "x") };
        let added = fixture.store.add_persona(&alice, long.clone(), None).await;
        assert_eq!(added.is_ok(), good, "{bytes} bytes");
        assert!(good || matches!(added, Err(Error::Changed(_))));
        let changed =
            fixture.store.change_persona(&alice, NewPersonaRow { id: "a".into(), ..long }, None).await;
        assert_eq!(changed.is_ok(), good);
    }
    let fill = format!(
        "WITH RECURSIVE n (i) AS (SELECT 3 UNION ALL SELECT i + 1 FROM n WHERE i < {MAX_PERSONAS_PER_SCOPE})
         INSERT INTO personas SELECT 'app', 'alice', 'p' || i, 'x', '', '{{}}', 0, 0 FROM n"
    );
    fixture.database().execute(&fill, []).unwrap();
    let Err(Error::Changed(words)) = fixture.store.add_persona(&alice, new("z", "x"), None).await else {
        panic!("there was room");
    };
    assert_eq!(words, "there are already 200 personas; delete some first");
    assert_eq!(listed(&fixture, &alice).await.len(), MAX_PERSONAS_PER_SCOPE);
    fixture.store.add_persona(&elsewhere(), new("z", "x"), None).await.unwrap();
    fixture.store.delete_persona(&alice, "a", None).await.unwrap();
    fixture.store.add_persona(&alice, new("z", "x"), None).await.unwrap();
}

fn by(persona: Option<&str>) -> ThreadEdit {
    ThreadEdit { persona: Some(persona.map(str::to_owned)), ..ThreadEdit::default() }
}

#[tokio::test]
async fn a_thread_has_a_persona_until_that_is_deleted() {
    let fixture = Fixture::new();
    let (alice, her) = (scope("alice"), principal("alice"));
    let begin = async |scope: &Scope| {
        let thread = NewThreadRow { id: fixture.ids.thread(), title: None, persona: Some("a".into()) };
        let row = fixture.store.create_thread(scope, thread, None).await.unwrap();
        assert_eq!(row.persona.as_deref(), Some("a"));
        row
    };
    let (hers, bobs, others) = (begin(&alice).await, begin(&scope("bob")).await, begin(&elsewhere()).await);
    let set = async |persona: Option<&str>, key| {
        fixture.store.change_thread(&her, hers.id, by(persona), once(key, 1)).await.unwrap().persona
    };
    assert_eq!(set(Some("b"), "one").await.as_deref(), Some("b"));
    assert_eq!(set(None, "two").await, None);
    assert_eq!(set(Some("b"), "one").await, None, "a second time gives what there is now");
    assert_eq!(set(Some("a"), "three").await.as_deref(), Some("a"));
    let reused = fixture.store.change_thread(&her, hers.id, by(None), once("one", 2)).await;
    assert!(matches!(reused, Err(Error::KeyReused)));
    let stolen = fixture.store.change_thread(&principal("mallory"), hers.id, by(None), None).await;
    assert!(matches!(stolen, Err(Error::NotFound("thread"))));
    assert_eq!(fixture.store.thread(&her, hers.id).await.unwrap(), hers, "nothing else of it changes");
    fixture.store.add_persona(&alice, new("a", "Ada"), None).await.unwrap();
    fixture.store.delete_persona(&alice, "a", None).await.unwrap();
    assert_eq!(fixture.store.thread(&her, hers.id).await.unwrap().persona, None);
    assert_eq!(fixture.store.thread(&principal("bob"), bobs.id).await.unwrap(), bobs);
    assert_eq!(fixture.store.thread(&her, others.id).await.unwrap(), others);
}

#[tokio::test]
async fn a_run_says_who_answers_and_the_thread_that_it_begins_has_nobody_of_its_own() {
    let fixture = Fixture::new();
    let her = principal("alice");
    let document = fixture.ids.document();
    let submit = async |target, persona: &str| {
        let mut submission = fixture.submission(target);
        submission.on_busy = protocol::OnBusy::Queue;
        submission.request.persona = Some(persona.into());
        submission.request.documents = Some(vec![document]);
        fixture.store.submit(submission).await.unwrap().0
    };
    let first = submit(Target::New(fixture.ids.thread()), "a").await;
    submit(Target::Existing(first.thread), "b").await;
    assert_eq!(fixture.store.thread(&her, first.thread).await.unwrap().persona, None);
    let ended = crate::support::end(first.run, protocol::RunStatus::Completed);
    fixture.log(first).await.record(vec![ended], vec![], vec![]).await.unwrap();
    let events = fixture.store.events(first.thread, None, 0).await.unwrap();
    let asked: Vec<_> = events
        .iter()
        .filter_map(|event| match Event::read(&event.kind, &event.body) {
            Ok(Event::RunStart(start)) => Some((start.persona_id.unwrap(), start.document_ids)),
            _ => None,
        })
        .collect();
    assert_eq!(asked, [("a".to_owned(), Some(vec![document])), ("b".to_owned(), Some(vec![document]))]);
}
