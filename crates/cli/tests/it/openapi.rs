//! `rondo tools import openapi`: a description becomes tools of an app, and a model that calls them sends the requests
//! that the service wants.

use std::path::Path;

use reqwest::Method;
use serde_json::{Value, json};
use testkit::upstream::{Reply, ScriptedCall};
use testkit::web::{self, Web};

use crate::cut::{Cut, reply, status};
use crate::process::{Ended, Process};
use crate::world::{Server, World, send};

const PETS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/openapi/pets.yaml");
const FILE: &str = "apps/shelter/tools/pet-shelter.toml";

/// With one app that has nothing yet.
async fn world() -> World {
    let world = World::new().await;
    world.write("apps/shelter/app.toml", "name = \"Shelter\"\n");
    world.write("apps/shelter/instructions.md", "Look after the pets.\n");
    world
}

async fn import(world: &World, args: &[&str]) -> Ended {
    let args = [&["tools", "import", "openapi"], args, &["--apps", "apps"]].concat();
    Process::start(&mut world.rondo(&args)).ended().await
}

fn written(world: &World) -> Option<String> {
    std::fs::read_to_string(world.path(FILE)).ok()
}

#[track_caller]
fn refused(ended: &Ended, parts: &[&str]) {
    assert_eq!((ended.code, ended.output.as_str()), (Some(1), ""), "{ended:?}");
    for part in parts {
        assert!(ended.errors.contains(part), "{part:?} is missing: {}", ended.errors);
    }
}

#[tokio::test]
async fn an_import_says_what_it_wrote_what_it_left_out_and_what_to_do() {
    let world = world().await;
    let ended = import(&world, &[PETS, "--app", "shelter"]).await;
    assert_eq!((ended.code, ended.errors.as_str()), (Some(0), ""), "{ended:?}");
    let expected = "\
4 tools, written to apps/shelter/tools/pet-shelter.toml:
  findPets        read          GET /pets
  addPet          irreversible  POST /pets
  getPetById      read          GET /pets/{petId}
  put_pets_petId  idempotent    PUT /pets/{petId}
irreversible tools ask the user for approval; if a tool is not irreversible, correct its effect
left out:
  removePet: it is deprecated; name it with --only to include it
  uploadPhoto: its body is multipart/form-data
to know:
  findPets: the cookie \"session\" is left out
  addPet: #/components/schemas/Pet contains itself, and is cut there
  put_pets_petId: #/components/schemas/Pet contains itself, and is cut there
secret eu_pets_example_com_shelter_key: set RONDO_SECRET_EU_PETS_EXAMPLE_COM_SHELTER_KEY to the value of X-Shelter-Key, \
or add [secrets.eu_pets_example_com_shelter_key] to rondo.toml; it is sent to https://eu.pets.example.com
next: review the file, run `rondo doctor`, and restart the server
";
    assert_eq!(ended.output, expected);
    let app = app::load(&world.path("apps/shelter")).unwrap();
    let names: Vec<&str> = app.declared.iter().map(|declared| declared.tool.name.as_str()).collect();
    assert_eq!(names, ["findPets", "addPet", "getPetById", "put_pets_petId"]);
}

#[tokio::test]
async fn without_an_app_the_tools_go_to_standard_output_and_the_rest_does_not() {
    let world = world().await;
    let ended = import(&world, &[PETS, "--only", "findPets", "GET /pets/{petId}", "--prefix", "den"]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let expected = "\
# Pet Shelter 1.2, as `rondo tools import openapi` read it.

[tool.den_findPets]
description = \"Find pets. Finds pets that are free. The newest come first.\"
effect = \"read\"

[tool.den_findPets.parameters]
type = \"object\"

[tool.den_findPets.parameters.properties]
kind = { type = \"string\", enum = [\"cat\", \"dog\"] }
tags = { type = \"array\", items = { type = \"string\" } }
page = { type = \"integer\", exclusiveMinimum = 0 }
X_Request_ID = { type = \"string\", maxLength = 64 }

[tool.den_findPets.http]
method = \"GET\"
url = \"https://eu.pets.example.com/v1/pets\"
headers = { X-Shelter-Key = \"{{ secret.den_shelter_key }}\", X-Request-ID = \"{{ input.X_Request_ID }}\" }

[tool.den_findPets.http.query]
kind = \"{{ input.kind }}\"
tags = '{{ input.tags | join(\",\") if input.tags }}'
page = \"{{ input.page }}\"

[tool.den_getPetById]
description = \"GET /pets/{petId}\"
effect = \"read\"

[tool.den_getPetById.parameters]
type = \"object\"
required = [\"petId\"]

[tool.den_getPetById.parameters.properties]
petId = { type = \"integer\", format = \"int64\", description = \"Which pet.\" }
fields = { type = \"string\" }

[tool.den_getPetById.http]
method = \"GET\"
url = \"https://eu.pets.example.com/v1/pets/{{ input.petId }}\"
query = { fields = \"{{ input.fields }}\" }
headers = { X-Shelter-Key = \"{{ secret.den_shelter_key }}\" }
";
    assert_eq!(ended.output, expected);
    assert!(
        ended.errors.starts_with("2 tools:\n") && ended.errors.contains("RONDO_SECRET_DEN_SHELTER_KEY"),
        "{ended:?}"
    );
}

#[tokio::test]
async fn a_secret_that_is_set_is_not_given_away_without_a_word() {
    let world = world().await;
    let mut command = world.rondo(&["tools", "import", "openapi", PETS, "--only", "getPetById"]);
    command.env("RONDO_SECRET_EU_PETS_EXAMPLE_COM_SHELTER_KEY", "open-sesame-42");
    let ended = Process::start(&mut command).ended().await;
    let line = "secret eu_pets_example_com_shelter_key: is set already; make sure that it is meant for \
                https://eu.pets.example.com\n";
    assert!(ended.errors.contains(line), "{ended:?}");
    assert!(!ended.errors.contains("open-sesame") && !ended.output.contains("open-sesame"), "{ended:?}");
}

#[tokio::test]
async fn a_file_that_is_there_is_replaced_only_by_force_and_a_trial_writes_nothing() {
    let world = world().await;
    let trial = import(&world, &[PETS, "--app", "shelter", "--dry-run"]).await;
    assert!(trial.output.starts_with("4 tools, which would be written to "), "{trial:?}");
    assert!(!world.path("apps/shelter/tools").exists());
    world.write(FILE, "# mine\n");
    refused(&import(&world, &[PETS, "--app", "shelter"]).await, &["exists already; give --force"]);
    assert_eq!(written(&world).unwrap(), "# mine\n");
    let forced = import(&world, &[PETS, "--app", "shelter", "--force", "--tag", "pets"]).await;
    assert_eq!(forced.code, Some(0), "{forced:?}");
    assert!(written(&world).unwrap().contains("[tool.addPet]"));
    let names: Vec<String> = std::fs::read_dir(world.path("apps/shelter/tools"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(names, ["pet-shelter.toml"], "nothing else is left behind");
}

#[tokio::test]
async fn an_app_that_cannot_have_the_tools_is_as_it_was() {
    let world = world().await;
    let own = "[tool.addPet]\ndescription = \"x\"\n[tool.addPet.http]\nurl = \"https://example.com\"\n";
    world.write("apps/shelter/app.toml", own);
    let parts = ["nothing was written", "pet-shelter.toml:", "\"addPet\" is in app.toml too"];
    refused(&import(&world, &[PETS, "--app", "shelter"]).await, &parts);
    assert_eq!(written(&world), None);
    world.write(FILE, "# mine\n");
    refused(&import(&world, &[PETS, "--app", "shelter", "--force"]).await, &parts);
    assert_eq!(written(&world).unwrap(), "# mine\n");
}

#[tokio::test]
async fn what_cannot_be_imported_is_said_with_what_to_do() {
    let world = world().await;
    refused(&import(&world, &["missing.yaml"]).await, &["missing.yaml: "]);
    refused(
        &import(&world, &[PETS, "--app", "other"]).await,
        &["there is no app \"other\"; there is shelter"],
    );
    refused(&import(&world, &[PETS, "--app", ".."]).await, &["there is no app"]);
    refused(
        &import(&world, &[PETS, "--only", "ride"]).await,
        &["there is no operation \"ride\"; there is findPets, addPet", "PUT /pets/{petId}"],
    );
    refused(&import(&world, &[PETS, "--tag", "cars"]).await, &["no operation has such a tag"]);
    refused(&import(&world, &[PETS, "--base-url", "/v1"]).await, &["the server's address is \"/v1\""]);
    world.write("old.json", "{\"swagger\": \"2.0\"}");
    refused(&import(&world, &["old.json"]).await, &["old.json: this is Swagger 2.0", "convert it"]);
    let paths: Value =
        (0..129).map(|i| (format!("/{i}"), json!({ "get": { "operationId": format!("op{i}") } }))).collect();
    let many = json!({ "openapi": "3.1.0", "servers": [{ "url": "https://example.com" }], "paths": paths });
    world.write("many.json", &many.to_string());
    let parts = ["there are 129 operations", "at most 128", "--only or --tag", "op0, op1, ", ", op128"];
    refused(&import(&world, &["many.json"]).await, &parts);
}

async fn decide(server: &Server, proposal: &Value, decision: &str) -> u16 {
    let id = proposal["proposalId"].as_str().unwrap();
    send(server.request(Method::POST, &format!("/v1/proposals/{id}/{decision}"))).await.0
}

#[tokio::test]
async fn a_model_reads_and_after_a_yes_adds_through_imported_tools() {
    let (world, web) = (world().await, Web::start().await);
    let base = format!("{}/v1", web.url());
    let ended = import(&world, &[PETS, "--app", "shelter", "--base-url", &base, "--prefix", "den"]).await;
    assert!(ended.output.contains(&format!("RONDO_EGRESS_ALLOW={}", web.host())), "{ended:?}");
    assert!(Path::new(&world.path("apps/shelter/tools/den.toml")).exists());
    web.on("GET", "/v1/pets/7", [web::WebReply::json(&json!({ "id": 7, "name": "Rex" }))]);
    web.on("POST", "/v1/pets", [web::WebReply::json(&json!({ "id": 8 }))]);
    let pet = json!({ "name": "Mi{{ secret.x }}a", "parent": { "id": 7 }, "notify": true });
    world.upstream.script([
        Reply::stream().call(ScriptedCall::new("den_getPetById", r#"{"petId":7,"fields":"name & kind"}"#)),
        Reply::stream().call(ScriptedCall::new("den_addPet", &pet.to_string())),
        Reply::says("Welcome."),
    ]);
    let mut command = world.rondo(&["serve"]);
    command.env("RONDO_APPS", world.path("apps")).env("RONDO_EGRESS_ALLOW", web.host());
    command.env("RONDO_SECRET_DEN_SHELTER_KEY", "open-sesame-42");
    let server = Server::start(&mut command).await;
    let mut frames = server.stream("/v1/apps/shelter/runs", &json!({ "message": "A child for Rex" })).await;
    let before = frames.read_until("proposal:open").await;
    let arrived = web.arrivals();
    assert_eq!(arrived.len(), 1, "nothing is added before a yes");
    let got = &arrived[0];
    assert_eq!((got.method.as_str(), got.path.as_str()), ("GET", "/v1/pets/7"));
    assert_eq!(
        (got.query.as_str(), got.header("x-shelter-key")),
        ("fields=name+%26+kind", Some("open-sesame-42"))
    );
    assert!(got.header("idempotency-key").is_some());

    assert_eq!(decide(&server, &before.last().unwrap().data, "confirm").await, 200);
    let whole = Cut::of(before, &frames).follow(&server).await;
    assert_eq!((status(&whole), reply(&whole)), ("completed", "Welcome."));
    let arrived = web.arrivals();
    let added = arrived.get(1).unwrap();
    assert_eq!(
        (added.method.as_str(), added.path.as_str(), added.query.as_str()),
        ("POST", "/v1/pets", "notify=true")
    );
    assert_eq!(added.json(), json!({ "name": "Mi{{ secret.x }}a", "parent": { "id": 7 } }));
    assert_eq!(added.header("x-shelter-key"), Some("open-sesame-42"));
    assert_ne!(added.header("idempotency-key"), got.header("idempotency-key"));
    assert!(added.header("idempotency-key").is_some_and(|key| !key.is_empty()));
}
