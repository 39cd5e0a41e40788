//! JSON.

use std::cell::RefCell;
use std::collections::btree_map::Entry;
use std::fmt;

use figment::value::{Dict, Empty, Num, Tag, Value};
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

use super::{duplicate, join};
use crate::topology::Problem;

pub(super) fn parse(text: &str) -> Result<(Dict, Vec<Problem>), Vec<Problem>> {
    let problems = RefCell::new(Vec::new());
    let mut reader = serde_json::Deserializer::from_str(text);
    let node = Node {
        path: String::new(),
        problems: &problems,
    };
    let value = node
        .deserialize(&mut reader)
        .and_then(|value| reader.end().map(|()| value))
        // The reader's words are fixed ones and a place, never a piece of the text.
        .map_err(|error| vec![Problem::new("", format!("not valid JSON: {error}"))])?;
    match value {
        Value::Dict(_, dict) => Ok((dict, problems.into_inner())),
        _ => Err(vec![Problem::new(
            "",
            "not a configuration: the text must be an object",
        )]),
    }
}

/// A value at a path, for telling where a key is given twice.
struct Node<'p> {
    path: String,
    problems: &'p RefCell<Vec<Problem>>,
}

impl Node<'_> {
    fn below(&self, name: &str) -> Self {
        Self {
            path: join(&self.path, name),
            problems: self.problems,
        }
    }
}

impl<'de> DeserializeSeed<'de> for Node<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(Tag::Default, value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Num(Tag::Default, Num::I64(value)))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Num(Tag::Default, Num::U64(value)))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Value::Num(Tag::Default, Num::F64(value)))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(Tag::Default, value.to_owned()))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Empty(Tag::Default, Empty::Unit))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut array = Vec::new();
        while let Some(item) = items.next_element_seed(self.below(&array.len().to_string()))? {
            array.push(item);
        }
        Ok(Value::Array(Tag::Default, array))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut dict = Dict::new();
        while let Some(key) = entries.next_key::<String>()? {
            let value = entries.next_value_seed(self.below(&key))?;
            match dict.entry(key) {
                Entry::Occupied(first) => {
                    let problem = duplicate(&self.path, first.key(), "");
                    self.problems.borrow_mut().push(problem);
                }
                Entry::Vacant(place) => {
                    place.insert(value);
                }
            }
        }
        Ok(Value::Dict(Tag::Default, dict))
    }
}
