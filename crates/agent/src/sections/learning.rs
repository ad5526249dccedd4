//! Which sections a message needs, learned of an app's examples, and how well that does with lines it has not seen.

use app::{ANY_SECTION, App, CONTINUES, Classifier, Example, Examples, Section};
use memory::classify::{self, Lesson};

use super::{RecordsByType, SaidMessage, choose_sections};

/// Parts that examples are cut into: what is learned of all but one is tried on that one.
const FOLDS: usize = 4;

/// The vectors of the first message of each line, in the order of the lines, and the model that made them.
#[derive(Debug, Clone, Copy)]
pub struct ExampleVectors<'a> {
    pub embedder: &'a str,
    pub vectors: &'a [Vec<f32>],
}

/// How often the right sections come, and how often any comes in vain.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SectionRates {
    pub needed: usize,
    /// Of those.
    pub came: usize,
    /// Messages that need nothing.
    pub unrelated: usize,
    /// Of those, with any section.
    pub alarms: usize,
}

impl SectionRates {
    /// Counts a message by what it needs and what it gets.
    pub fn add(&mut self, needs: &[String], gets: &[&str]) {
        self.needed += needs.len();
        self.came += needs.iter().filter(|need| gets.contains(&need.as_str())).count();
        if needs.is_empty() {
            self.unrelated += 1;
            self.alarms += usize::from(!gets.is_empty());
        }
    }

    pub fn recall(&self) -> f64 {
        self.came as f64 / self.needed.max(1) as f64
    }

    pub fn false_alarms(&self) -> f64 {
        self.alarms as f64 / self.unrelated.max(1) as f64
    }
}

/// Learns of all examples.
pub fn learn_sections(app: &App, examples: &Examples, vectors: Option<ExampleVectors<'_>>) -> Classifier {
    let all: Vec<usize> = (0..examples.all.len()).collect();
    learn_classifier(app, examples, vectors, &all)
}

/// Learns of some of the examples what the others are, each in its turn. Lines are kept together, so that a line is never
/// known by its own variants, and the first message of each is tried.
pub fn cross_validate(app: &App, examples: &Examples, vectors: Option<ExampleVectors<'_>>) -> SectionRates {
    let mut rates = SectionRates::default();
    let sections: Vec<&Section> = app.sections.iter().collect();
    for fold in 0..FOLDS {
        let is_tried = |at: &usize| examples.all.get(*at).is_some_and(|example| example.line % FOLDS == fold);
        let (tried, others): (Vec<usize>, Vec<usize>) = (0..examples.all.len()).partition(is_tried);
        let classifier = learn_classifier(app, examples, vectors, &others);
        let app = App { classifier: Some(classifier.into()), ..app.clone() };
        for at in tried {
            let Some(example) = examples.all.get(at).filter(|example| !example.continues) else { continue };
            if !examples.is_first_of_line(at) {
                continue;
            }
            let said = SaidMessage { text: &example.text, vector: vector(examples, vectors, at) };
            let scores = choose_sections(&app, &sections, &RecordsByType::new(), (said, None));
            rates.add(&example.sections, &chosen_sections(&sections, &scores));
        }
    }
    rates
}

/// The names of those that are called for.
pub fn chosen_sections<'a>(sections: &[&'a Section], scores: &[f32]) -> Vec<&'a str> {
    let called = sections.iter().zip(scores).filter(|(_, score)| **score > 0.0);
    called.map(|(section, _)| section.name.as_str()).collect()
}

fn vector<'a>(examples: &Examples, vectors: Option<ExampleVectors<'a>>, at: usize) -> Option<&'a [f32]> {
    let example = examples.all.get(at).filter(|_| examples.is_first_of_line(at))?;
    vectors?.vectors.get(example.line).map(Vec::as_slice)
}

fn learn_classifier(
    app: &App,
    examples: &Examples,
    vectors: Option<ExampleVectors<'_>>,
    some: &[usize],
) -> Classifier {
    let sections = app.sections.iter().map(|section| section.name.as_str());
    let names: Vec<&str> = [ANY_SECTION, CONTINUES].into_iter().chain(sections).collect();
    let lesson = |at: &usize| {
        let example = examples.all.get(*at)?;
        let is = names.iter().map(|name| is_of(example, name)).collect();
        Some(Lesson { text: &example.text, is, vector: vector(examples, vectors, *at) })
    };
    let lessons: Vec<Lesson<'_>> = some.iter().filter_map(lesson).collect();
    Classifier {
        examples: examples.hash.clone(),
        embedder: vectors.map(|vectors| vectors.embedder.to_owned()),
        matters: classify::learn(&names, &lessons),
    }
}

/// Whether the example is of the matter. Of a section only messages that need any say something: the others are kept away
/// before it is asked which.
fn is_of(example: &Example, matter: &str) -> Option<bool> {
    match matter {
        ANY_SECTION => Some(!example.sections.is_empty()),
        CONTINUES => Some(example.continues),
        _ if example.sections.is_empty() => None,
        section => Some(example.sections.iter().any(|name| name == section)),
    }
}
