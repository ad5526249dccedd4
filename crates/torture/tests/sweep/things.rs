//! Things that users make and change by hand.

use std::sync::Arc;

use serde_json::{Value, json};
use testkit::{Method, Setup, WordVectors};

use crate::stage::{Scenario, sweep};

const PARTS: &str = "/v1/apps/test/records/part";
const PART: &str = r#"{"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer"}},
    "required":["name"],"additionalProperties":false}"#;

fn at(kind: &str, made: &Value) -> String {
    format!("{kind}/{}", made["id"].as_str().expect("an id"))
}

#[tokio::test]
async fn threads_are_made_and_renamed() {
    sweep(Scenario::new("threads", Setup::default, 8), async |client| {
        let threads = "/v1/apps/test/threads";
        let made = client.post("make", threads, &json!({ "title": "One" })).await?;
        client.post("make another", threads, &json!({})).await?;
        let path = at("/v1/threads", &made);
        client.patch("rename", &path, &json!({ "title": "Two" })).await?;
        client.patch("rename again", &path, &json!({ "title": "Three" })).await?;
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn records_are_made_changed_and_deleted() {
    let setup = || Setup { files: vec![("records/part.json".into(), PART.into())], ..Setup::default() };
    sweep(Scenario::new("records", setup, 12), async |client| {
        let mut made = Vec::new();
        for name in ["Critic", "Guide", "Child"] {
            made.push(client.post(name, PARTS, &json!({ "name": name })).await?);
        }
        client.patch("change", &at(PARTS, &made[0]), &json!({ "age": 7 })).await?;
        client.put("replace", &at(PARTS, &made[1]), &json!({ "name": "Leader" })).await?;
        client.delete("delete", &at(PARTS, &made[2])).await?;
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn files_are_put_and_deleted() {
    sweep(Scenario::new("files", Setup::default, 6), async |client| {
        for (step, path, text) in
            [("one", "a.md", "# One"), ("two", "b.md", "# Two"), ("more", "a.md", "# 1")]
        {
            let put = client.request(Method::PUT, &format!("/v1/apps/test/files/{path}")).body(text);
            let answer = client.ask(step, put).await?;
            client.check(answer.status < 300, "a file is put");
        }
        client.delete("delete", "/v1/apps/test/files/b.md").await?;
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn personas_and_pins_come_and_go() {
    sweep(Scenario::new("personas and pins", Setup::default, 12), async |client| {
        let personas = "/v1/apps/test/personas";
        let chef = json!({ "id": "chef", "name": "The Chef", "prompt": "Speak like a chef." });
        client.post("add", personas, &chef).await?;
        client.post("add another", personas, &json!({ "id": "zoe", "prompt": "Be Zoe." })).await?;
        client.patch("change", &format!("{personas}/chef"), &json!({ "prompt": "Cook." })).await?;
        client.delete("remove", &format!("{personas}/zoe")).await?;
        let pin = client.post("pin", "/v1/apps/test/pins", &json!({ "text": "Use metres." })).await?;
        client.post("pin another", "/v1/apps/test/pins", &json!({ "text": "Be brief." })).await?;
        client.delete("unpin", &at("/v1/pins", &pin)).await?;
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn documents_are_uploaded_and_deleted() {
    sweep(Scenario::new("documents", Setup::default, 8), async |client| {
        let mut made = Vec::new();
        for name in ["manual", "guide"] {
            let text: String = (0..40)
                .map(|number| format!("## {name} {number}\n\n{}\n\n", "Keep it dry. ".repeat(30)))
                .collect();
            let path = format!("/v1/apps/test/documents?name={name}.md");
            let upload = client.request(Method::POST, &path).header("content-type", "text/markdown");
            let answer = client.ask(name, upload.body(text)).await?;
            client.check(answer.status == 201, "a document is added");
            made.push(answer.body);
        }
        client.delete("delete", &at("/v1/documents", &made[0])).await?;
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn documents_of_the_app_are_added_changed_and_removed() {
    let text = |name: &str| format!("# {name}\n\n{}", "Keep it dry. ".repeat(60));
    let setup = || Setup {
        files: vec![
            ("documents/changed.md".into(), "The first version.".into()),
            ("documents/removed.md".into(), "To be removed.".into()),
        ],
        embedder: Some(Arc::new(WordVectors("words"))),
        ..Setup::default()
    };
    sweep(Scenario::new("knowledge", setup, 16), async |client| {
        let folder = client.app_folder("test").join("documents");
        for (name, words) in [("added.md", text("Added")), ("changed.md", text("Changed"))] {
            std::fs::write(folder.join(name), words).expect("a document is written");
        }
        let _it_may_be_gone = std::fs::remove_file(folder.join("removed.md"));
        client.update_knowledge("test").await?;
        let page = client.request(Method::GET, "/v1/apps/test/knowledge");
        let answer = client.ask("list", page).await?;
        let names: Vec<&Value> =
            answer.body["data"].as_array().into_iter().flatten().map(|one| &one["name"]).collect();
        client.check(names == ["added.md", "changed.md"], "the documents are those of the folder");
        Ok(())
    })
    .await;
}
