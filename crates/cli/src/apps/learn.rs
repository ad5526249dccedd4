//! `rondo apps learn`: which messages need which sections, learned of an app's examples.

use std::io::Write;
use std::path::Path;

use agent::{ExampleVectors, SectionRates};
use app::{App, Examples};
use model::Embedder;

use crate::config::Config;
use crate::{CommandResult, service_setup};

/// Texts embedded at a time.
const EMBED_BATCH: usize = 64;

pub(super) async fn learn(config: &Config, folder: &Path) -> CommandResult {
    let app = &load_app(folder)?;
    let Some(examples) = app::examples(app)? else {
        let place = app.folder.join("context/examples.toml");
        let words =
            "there is no such file; write example messages there, with the sections that each message needs";
        return Err(format!("{}: {words} (docs/context.md, Sections)", place.display()).into());
    };
    let mut out = std::io::stdout().lock();
    writeln!(out, "{} messages of {} lines", examples.all.len(), examples.first_of_lines().count())?;
    write_rates(&mut out, "by words alone", agent::cross_validate(app, &examples, None))?;
    let embedder = service_setup::embedder(config)?.map(|(embedder, _)| embedder);
    let vectors = match &embedder {
        Some(embedder) => Some(embed_examples(&**embedder, &examples).await?),
        None => None,
    };
    let with = vectors.as_ref().zip(embedder.as_ref());
    let with = with.map(|(vectors, embedder)| ExampleVectors { embedder: embedder.model(), vectors });
    match with {
        Some(vectors) => {
            let how = format!("with the embedder {}", vectors.embedder);
            write_rates(&mut out, &how, agent::cross_validate(app, &examples, with))?;
        }
        None => writeln!(out, "there is no embedding model, so only words were learned")?,
    }
    let file = app::learned_file(&app.folder);
    let unwritten = |error| format!("{}: cannot be written: {error}", file.display());
    std::fs::write(&file, agent::learn_sections(app, &examples, with).to_text()).map_err(unwritten)?;
    writeln!(out, "written to {}", file.display())?;
    Ok(())
}

/// The app. A broken file of what was learned is removed: it is made anew.
fn load_app(folder: &Path) -> CommandResult<App> {
    let learned = app::learned_file(folder);
    match app::load(folder) {
        Err(problem) if problem.file == learned => {
            std::fs::remove_file(&learned)?;
            Ok(app::load(folder)?)
        }
        loaded => Ok(loaded?),
    }
}

async fn embed_examples(embedder: &dyn Embedder, examples: &Examples) -> CommandResult<Vec<Vec<f32>>> {
    let texts: Vec<String> = examples.first_of_lines().map(|example| example.text.clone()).collect();
    let mut vectors = Vec::with_capacity(texts.len());
    for batch in texts.chunks(EMBED_BATCH) {
        vectors.extend(embedder.embed(batch).await?);
    }
    Ok(vectors)
}

fn write_rates(out: &mut impl Write, how: &str, rates: SectionRates) -> std::io::Result<()> {
    writeln!(
        out,
        "{how}, in lines that were not learned: {} of {} needed sections were found ({:.2}), {} of {} \
         messages that need no section got one ({:.2})",
        rates.came,
        rates.needed,
        rates.recall(),
        rates.alarms,
        rates.unrelated,
        rates.false_alarms(),
    )
}
