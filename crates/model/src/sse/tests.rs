//! A stream gives the same events wherever it is cut.

use proptest::prelude::*;

use super::{MAX_EVENT_BYTES, MAX_LINE_BYTES, SseParser, SseTooLong};

type Events = Vec<(String, String)>;

/// Every line end, a byte order mark, comments, joined lines, wide characters, broken UTF-8, a name, unknown fields.
const STREAM: &[u8] =
    b"\xef\xbb\xbf: hello\n\ndata: one\n\ndata:two\r\ndata: lines\r\n\r\nevent: error\rdata:  x\r\r\
    id: 7\nretry: 1\nunknown\ndata\n\nevent: lost\n\ndata: \xe2\x82\xac\xf0\x9f\x8e\xb5\n\n\
    data: bad \xff\xe2\x82 end\n\ndata: \xef\xbb\xbfkept\n\n:\r\ndata: a:b\r\n\ndata: unfinished\n";

fn expected() -> Events {
    [
        ("", "one"),
        ("", "two\nlines"),
        ("error", " x"),
        ("", ""),
        ("", "€🎵"),
        ("", "bad \u{fffd}\u{fffd} end"),
        ("", "\u{feff}kept"),
        ("", "a:b"),
    ]
    .map(|(name, data)| (name.to_owned(), data.to_owned()))
    .to_vec()
}

fn parse<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> (Events, Result<(), SseTooLong>) {
    let mut parser = SseParser::default();
    let mut events = Events::new();
    for chunk in chunks {
        let outcome = parser.feed(chunk, |event| {
            events.push((event.name.to_string(), event.data.to_string()));
            Ok::<(), SseTooLong>(())
        });
        if outcome.is_err() {
            return (events, outcome);
        }
    }
    (events, Ok(()))
}

#[test]
fn a_whole_stream() {
    assert_eq!(parse([STREAM]), (expected(), Ok(())));
}

#[test]
fn cut_at_every_byte() {
    for cut in 0..=STREAM.len() {
        let (head, tail) = STREAM.split_at(cut);
        assert_eq!(parse([head, tail]), (expected(), Ok(())), "cut at {cut}");
    }
}

#[test]
fn cut_at_every_pair_of_bytes() {
    for first in 0..=STREAM.len() {
        for second in first..=STREAM.len() {
            let chunks = [&STREAM[..first], &STREAM[first..second], &STREAM[second..]];
            assert_eq!(parse(chunks), (expected(), Ok(())), "cut at {first} and {second}");
        }
    }
}

#[test]
fn byte_by_byte() {
    assert_eq!(parse(STREAM.chunks(1)), (expected(), Ok(())));
}

#[test]
fn a_line_at_the_limit_is_read_and_one_byte_more_is_refused() {
    let line = |bytes: usize| [b"data:".as_slice(), &vec![b'x'; bytes - 5], b"\n\n"].concat();
    for size in [7, 4096, usize::MAX] {
        let (events, outcome) = parse(line(MAX_LINE_BYTES).chunks(size));
        assert_eq!((events[0].1.len(), outcome), (MAX_LINE_BYTES - 5, Ok(())));
        assert_eq!(parse(line(MAX_LINE_BYTES + 1).chunks(size)), (vec![], Err(SseTooLong::Line)));
    }
}

#[test]
fn a_line_without_an_end_is_refused_at_the_limit() {
    let endless = vec![b'x'; MAX_LINE_BYTES];
    let mut parser = SseParser::default();
    let mut feed = |chunk: &[u8]| parser.feed(chunk, |_| Ok::<(), SseTooLong>(()));
    assert_eq!(feed(&endless), Ok(()));
    assert_eq!(feed(b"x"), Err(SseTooLong::Line));
}

#[test]
fn an_event_of_many_lines_is_refused_at_its_limit() {
    let line = [b"data:".as_slice(), &vec![b'x'; 1023], b"\n"].concat();
    let fits = [line.repeat(MAX_EVENT_BYTES / 1024), b"\n".to_vec()].concat();
    let (events, outcome) = parse([fits.as_slice()]);
    assert_eq!((events[0].1.len(), outcome), (MAX_EVENT_BYTES - 1, Ok(())));
    let over = line.repeat(MAX_EVENT_BYTES / 1024 + 1);
    assert_eq!(parse(over.chunks(1000)), (vec![], Err(SseTooLong::Event)));
}

proptest! {
    #[test]
    fn random_cuts_of_random_bytes_change_nothing(
        stream in proptest::collection::vec(
            prop_oneof![Just(b'\r'), Just(b'\n'), Just(b':'), Just(b' '), Just(b'd'), Just(0xe2), any::<u8>()],
            0..300,
        ),
        data_lines in any::<bool>(),
        cuts in proptest::collection::vec(0_usize..400, 0..12),
    ) {
        let stream = if data_lines { stream.split(|b| *b == b':').collect::<Vec<_>>().join(&b"\ndata:"[..]) } else { stream };
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(stream.len())).collect();
        cuts.extend([0, stream.len()]);
        cuts.sort_unstable();
        let chunks = cuts.windows(2).map(|pair| &stream[pair[0]..pair[1]]);
        prop_assert_eq!(parse(chunks), parse([stream.as_slice()]));
    }
}
