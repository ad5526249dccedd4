//! A type that is visible outside its file has a name of its own in the whole workspace, so that a search finds it. No
//! private type has its name either.
//!
//! Each crate may have one `Error`. Types that mirror the JSON of another system stand in files called `wire.rs`, and
//! keep the names that they have there.

use std::collections::BTreeMap;

use super::Finding;
use crate::source::{DeclaredName, RustFile, SourceTree};

/// The file of types that mirror the JSON of another system.
const WIRE: &str = "wire.rs";
/// Each crate has one.
const ERROR: &str = "Error";
const REMEDY: &str = "give it a name with its noun, which no other type has";

/// One declaration.
pub(crate) struct TypePlace<'t> {
    pub(crate) crate_name: &'t str,
    pub(crate) path: &'t str,
    pub(crate) line: usize,
}

/// The places of types by their names. Types in tests and types that mirror the JSON of another system are left out.
fn places_by_name(
    tree: &SourceTree,
    types_of: impl Fn(&RustFile) -> &[DeclaredName],
) -> BTreeMap<&str, Vec<TypePlace<'_>>> {
    let mut places: BTreeMap<&str, Vec<TypePlace<'_>>> = BTreeMap::new();
    for file in tree.files.iter().filter(|file| file.file_name() != WIRE) {
        let declared = types_of(&file.rust).iter().filter(|declaration| !file.is_test_line(declaration.line));
        for declaration in declared {
            let place = TypePlace { crate_name: &file.crate_name, path: &file.path, line: declaration.line };
            places.entry(&declaration.name).or_default().push(place);
        }
    }
    places
}

/// The names that stand for several visible types, with the place of each.
pub(crate) fn duplicates(tree: &SourceTree) -> BTreeMap<&str, Vec<TypePlace<'_>>> {
    let mut places = places_by_name(tree, |file| &file.types);
    if let Some(errors) = places.get_mut(ERROR) {
        let mut number: BTreeMap<&str, usize> = BTreeMap::new();
        for error in errors.iter() {
            *number.entry(error.crate_name).or_default() += 1;
        }
        errors.retain(|error| number.get(error.crate_name).is_some_and(|number| *number > 1));
    }
    places.retain(|_, places| places.len() > 1);
    places
}

pub(super) fn check(tree: &SourceTree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (name, places) in duplicates(tree) {
        for (index, place) in places.iter().enumerate() {
            let other = places.iter().enumerate().find(|(other, _)| *other != index).map(|(_, other)| other);
            let Some(other) = other else { continue };
            let what = format!("the type `{name}` is also in {}:{}", other.path, other.line);
            let finding = Finding::new(place.path, place.line, what, REMEDY);
            findings.push(finding);
        }
    }
    let visible = places_by_name(tree, |file| &file.types);
    for (name, places) in places_by_name(tree, |file| &file.private_types) {
        let Some(other) = visible.get(name).and_then(|visible| visible.first()) else { continue };
        findings.extend(places.iter().map(|place| {
            let what =
                format!("the private type `{name}` has the name of a type in {}:{}", other.path, other.line);
            Finding::new(place.path, place.line, what, REMEDY)
        }));
    }
    findings
}
