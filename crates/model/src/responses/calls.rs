//! Which call an event speaks of, for servers that leave out some of what tells calls apart.

use std::collections::HashMap;

/// The calls of one answer, in the order they began.
#[derive(Debug, Default)]
pub(super) struct ResponsesCalls {
    calls: Vec<StreamedCall>,
    /// By the id of the item and by that of the call; some servers know only one, or mix them up.
    ids: HashMap<String, usize>,
    /// By place in the output, the newest first where servers give all calls the same.
    outputs: HashMap<u64, usize>,
    /// No call before this one is open.
    oldest: usize,
}

#[derive(Debug)]
struct StreamedCall {
    name: String,
    /// Some of its arguments have come.
    heard: bool,
    open: bool,
}

/// The marks of a call in an event: the id of the item, that of the call, and its place in the output.
#[derive(Debug, Clone, Copy)]
pub(super) struct ResponsesCallMarks<'a> {
    pub(super) ids: [&'a str; 2],
    pub(super) output: Option<u64>,
}

impl ResponsesCalls {
    pub(super) fn begin(&mut self, marks: ResponsesCallMarks<'_>, name: &str) {
        let place = self.calls.len();
        self.calls.push(StreamedCall { name: name.to_owned(), heard: false, open: true });
        for id in marks.ids.into_iter().filter(|id| !id.is_empty()) {
            self.ids.insert(id.to_owned(), place);
        }
        if let Some(output) = marks.output {
            self.outputs.insert(output, place);
        }
    }

    /// The call with one of these ids.
    pub(super) fn call_of(&self, marks: ResponsesCallMarks<'_>) -> Option<usize> {
        marks.ids.into_iter().find_map(|id| self.ids.get(id)).copied()
    }

    /// The call that has more to say.
    pub(super) fn growing_call(&self, marks: ResponsesCallMarks<'_>) -> Option<usize> {
        let newest = || self.open(self.calls.len().checked_sub(1)?);
        self.marked_call(marks).or_else(newest)
    }

    /// The call whose arguments are complete.
    pub(super) fn complete_call(&mut self, marks: ResponsesCallMarks<'_>) -> Option<usize> {
        self.marked_call(marks).or_else(|| self.oldest())
    }

    /// The call that is over, or none if it has not even begun.
    pub(super) fn end_call(&mut self, marks: ResponsesCallMarks<'_>, name: &str) -> Option<usize> {
        let place = match self.marked_call(marks) {
            Some(place) => place,
            None => {
                self.oldest().filter(|place| self.calls.get(*place).is_some_and(|call| call.name == name))?
            }
        };
        self.calls.get_mut(place)?.open = false;
        Some(place)
    }

    /// Notes that arguments have come and says whether some had before.
    pub(super) fn note_arguments(&mut self, place: usize) -> bool {
        self.calls.get_mut(place).is_some_and(|call| std::mem::replace(&mut call.heard, true))
    }

    fn marked_call(&self, marks: ResponsesCallMarks<'_>) -> Option<usize> {
        self.call_of(marks).or_else(|| self.open(*self.outputs.get(&marks.output?)?))
    }

    fn oldest(&mut self) -> Option<usize> {
        while !self.calls.get(self.oldest)?.open {
            self.oldest += 1;
        }
        Some(self.oldest)
    }

    fn open(&self, place: usize) -> Option<usize> {
        self.calls.get(place).filter(|call| call.open).map(|_| place)
    }
}
