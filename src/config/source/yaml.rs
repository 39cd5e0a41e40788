//! YAML 1.2, read event by event, so that every scalar keeps the text it was written with.

use std::collections::HashMap;
use std::collections::btree_map::Entry;

use figment::value::{Dict, Empty, Tag, Value};
use saphyr_parser::{Event, Marker, Parser, ScalarStyle, Span, StrInput};

use super::{duplicate, join};
use crate::topology::Problem;

/// No schema nests as deep as this.
const MAX_DEPTH: usize = 64;
/// Aliases of aliases grow without end; no configuration does.
const MAX_NODES: usize = 200_000;

pub(super) fn parse(text: &str) -> Result<(Dict, Vec<Problem>), Vec<Problem>> {
    let mut reader = Reader {
        parser: Parser::new_from_str(text),
        anchors: HashMap::new(),
        problems: Vec::new(),
        nodes: 0,
    };
    let value = reader.document().map_err(|problem| vec![problem])?;
    match value {
        Value::Dict(_, dict) => Ok((dict, reader.problems)),
        Value::Empty(..) => Ok((Dict::new(), reader.problems)),
        _ => Err(vec![Problem::new(
            "",
            "not a configuration: the text must be a mapping",
        )]),
    }
}

struct Reader<'t> {
    parser: Parser<'t, StrInput<'t>>,
    anchors: HashMap<usize, (Value, usize)>,
    problems: Vec<Problem>,
    nodes: usize,
}

fn fault(at: Marker, message: &str) -> Problem {
    Problem::new(
        "",
        format!("line {}, column {}: {message}", at.line(), at.col() + 1),
    )
}

impl<'t> Reader<'t> {
    fn next(&mut self) -> Result<(Event<'t>, Span), Problem> {
        match self.parser.next_event() {
            Some(Ok(event)) => Ok(event),
            Some(Err(error)) => {
                // All but one of the parser's messages are fixed words; that one shows a character
                // of the text.
                let message = match error.info() {
                    info if info.starts_with("unexpected character") => "unexpected character",
                    info => info,
                };
                Err(fault(
                    *error.marker(),
                    &format!("not valid YAML: {message}"),
                ))
            }
            None => Err(Problem::new("", "not valid YAML: the text ends too early")),
        }
    }

    fn document(&mut self) -> Result<Value, Problem> {
        let mut value = Value::Empty(Tag::Default, Empty::Unit);
        let mut documents = 0;
        loop {
            let (event, span) = self.next()?;
            match event {
                Event::StreamEnd => return Ok(value),
                Event::DocumentStart(_) => {
                    documents += 1;
                    if documents > 1 {
                        return Err(fault(
                            span.start,
                            "a second document begins here, and a configuration is one",
                        ));
                    }
                    let (event, span) = self.next()?;
                    value = self.node(event, span, "", 0)?;
                }
                Event::Nothing | Event::StreamStart | Event::DocumentEnd => {}
                _ => return Err(fault(span.start, "not valid YAML")),
            }
        }
    }

    fn count(&mut self, nodes: usize, at: Marker) -> Result<(), Problem> {
        self.nodes += nodes;
        if self.nodes > MAX_NODES {
            return Err(fault(at, "the text grows too large here, by its aliases"));
        }
        Ok(())
    }

    fn node(
        &mut self,
        event: Event<'t>,
        span: Span,
        path: &str,
        depth: usize,
    ) -> Result<Value, Problem> {
        if depth > MAX_DEPTH {
            return Err(fault(span.start, "nested too deep for a configuration"));
        }
        self.count(1, span.start)?;
        if let Event::Scalar(_, _, _, Some(tag))
        | Event::SequenceStart(_, Some(tag))
        | Event::MappingStart(_, Some(tag)) = &event
            && !tag.is_yaml_core_schema()
        {
            return Err(fault(span.start, "tags have no meaning here: remove it"));
        }
        let before = self.nodes;
        let (value, anchor) = match event {
            Event::Alias(anchor) => {
                let Some((value, nodes)) = self.anchors.get(&anchor).cloned() else {
                    return Err(fault(span.start, "the alias stands inside what it names"));
                };
                self.count(nodes, span.start)?;
                return Ok(value);
            }
            Event::Scalar(text, style, anchor, tag) => {
                let is_null = style == ScalarStyle::Plain
                    && tag.is_none()
                    && matches!(text.as_ref(), "" | "~" | "null" | "Null" | "NULL");
                let value = if is_null {
                    Value::Empty(Tag::Default, Empty::Unit)
                } else {
                    Value::String(Tag::Default, text.into_owned())
                };
                (value, anchor)
            }
            Event::SequenceStart(anchor, _) => (self.sequence(path, depth)?, anchor),
            Event::MappingStart(anchor, _) => (self.mapping(path, depth)?, anchor),
            _ => return Err(fault(span.start, "not valid YAML")),
        };
        if anchor != 0 {
            let nodes = self.nodes - before + 1;
            self.anchors.insert(anchor, (value.clone(), nodes));
        }
        Ok(value)
    }

    fn sequence(&mut self, path: &str, depth: usize) -> Result<Value, Problem> {
        let mut items = Vec::new();
        loop {
            let (event, span) = self.next()?;
            if event == Event::SequenceEnd {
                return Ok(Value::Array(Tag::Default, items));
            }
            let path = join(path, &items.len().to_string());
            items.push(self.node(event, span, &path, depth + 1)?);
        }
    }

    fn mapping(&mut self, path: &str, depth: usize) -> Result<Value, Problem> {
        let mut dict = Dict::new();
        loop {
            let (event, span) = self.next()?;
            let name = match event {
                Event::MappingEnd => return Ok(Value::Dict(Tag::Default, dict)),
                Event::Scalar(name, ..) => name.into_owned(),
                _ => return Err(fault(span.start, "a key must be plain text")),
            };
            let (event, value_span) = self.next()?;
            let value = self.node(event, value_span, &join(path, &name), depth + 1)?;
            match dict.entry(name) {
                Entry::Occupied(first) => {
                    let place = format!(" (again in line {})", span.start.line());
                    self.problems.push(duplicate(path, first.key(), &place));
                }
                Entry::Vacant(place) => {
                    place.insert(value);
                }
            }
        }
    }
}
