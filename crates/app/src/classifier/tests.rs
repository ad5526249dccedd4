//! The file of weights: written and read back, and what is said of a broken one.

use super::*;

fn classifier(embedder: Option<&str>) -> Classifier {
    let mut weights = vec![0.0; BUCKETS];
    weights[3] = 2.0;
    weights[4] = -1.0;
    let meaning = embedder.map(|_| MatterWeights::of(&[0.5, -0.25], 0.125));
    let matter = |name: &str| MessageClass {
        name: name.into(),
        words: MatterWeights::of(&weights, -0.5),
        meaning: meaning.clone(),
    };
    Classifier {
        examples: "abc".into(),
        embedder: embedder.map(Into::into),
        matters: vec![matter("any"), matter("pets")],
    }
}

#[test]
fn a_written_file_is_read_back_as_it_was() {
    for embedder in [None, Some("tiny")] {
        let classifier = classifier(embedder);
        assert_eq!(Classifier::parse(&classifier.to_text()), Ok(classifier));
    }
}

#[test]
fn a_score_is_the_bias_and_the_weight_of_each_feature() {
    let classifier = classifier(None);
    let words = &classifier.matters[0].words;
    let score = words.score([(3, 1.0), (4, 1.0), (BUCKETS + 7, 1.0)].into_iter());
    assert!((score - 0.5).abs() < 0.01, "{score}");
}

#[test]
fn a_broken_file_is_refused_in_words() {
    let text = classifier(Some("tiny")).to_text();
    let refused = |from: &str, to: &str| Classifier::parse(&text.replace(from, to)).unwrap_err();
    assert!(refused("\"version\": 1", "\"version\": 9").contains("its version is 9"));
    assert!(refused("\"bias\": -0.5", "\"bias\": -0.5, \"more\": 1").contains("unknown field"));
    assert!(refused("\"embedder\": \"tiny\",", "").contains("without an embedder"));
    assert!(refused("\"name\": \"pets\"", "\"name\": \"\"").contains("cannot be the name"));
    assert!(refused("AAAA", "A").contains("weights"));
    assert!(Classifier::parse(&text[..200]).is_err());
    let empty = Classifier { matters: Vec::new(), ..classifier(None) };
    assert!(Classifier::parse(&empty.to_text()).unwrap_err().contains("it has 0 classes"));
}
