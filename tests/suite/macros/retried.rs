//! A body that runs again has its arguments whole each time.

use std::cell::Cell;

use diesel::prelude::*;
use diesel_sharded::sharded_transaction;

use super::super::backend::{Fleet, Sharded, insert};
use super::super::production::retries::conflict;
use super::Service;

/// Has no `Clone`: a body that only looks at it can run several times all the same.
struct Looked(i64);

impl Service {
    #[expect(clippy::too_many_arguments, reason = "each is used in another way")]
    #[sharded_transaction(keyspace = self.keys, key = 0, retries = 5)]
    fn again(
        &self,
        fleet: &Fleet,
        #[conn] conn: &mut Sharded,
        runs: &Cell<i64>,
        consumed: Vec<i64>,
        (left, mut right): (String, String),
        looked: Looked,
        mut changed: Vec<i64>,
        moved: String,
        count: &mut usize,
    ) -> QueryResult<(Vec<i64>, String)> {
        runs.set(runs.get() + 1);
        *count += 1;
        add(&mut changed);
        assert_eq!(changed, [1]);
        let length = move || moved_len(&moved);
        assert_eq!(length(), 5);
        let seen = &looked.0;
        right.push_str(&left);
        let text = right;
        if runs.get() <= 2 {
            conflict(fleet, conn)?;
        }
        insert(conn, *seen)?;
        Ok((consumed, text))
    }
}

fn add(list: &mut Vec<i64>) {
    list.push(1);
}

fn moved_len(text: &str) -> usize {
    text.len()
}

#[test]
fn arguments_are_whole_in_each_run() {
    let fleet = Fleet::new(&["a", "b"]);
    let service = Service::new(&fleet);
    let (runs, mut count) = (Cell::new(0), 0);
    let texts = ("left".to_owned(), "right".to_owned());
    let (consumed, text) = service
        .again(
            &fleet,
            &runs,
            vec![1, 2],
            texts,
            Looked(4),
            vec![],
            "moved".to_owned(),
            &mut count,
        )
        .unwrap();
    assert_eq!((consumed, text), (vec![1, 2], "rightleft".to_owned()));
    assert_eq!((runs.get(), count), (3, 3));
    assert_eq!(fleet.rows("a"), [4]);
}
