//! Streams that are made in one scope and read in another.

use diesel_sharded::{Error, FutureExt as _, Route, StreamExt as _};
use futures_util::{Stream, StreamExt as _, stream};

use super::backend::{Fleet, Manager, whoami};

fn here(shards: &Manager) -> Result<String, Error> {
    Ok(whoami(&mut shards.get()?)?)
}

/// Asks for the shard anew at each item, and yields in between.
fn readings(shards: &Manager) -> impl Stream<Item = Result<String, Error>> + Unpin {
    let items = stream::iter(0..3).then(move |_| async move {
        tokio::task::yield_now().await;
        here(shards)
    });
    Box::pin(items)
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.unwrap().block_on(future)
}

#[test]
fn a_stream_reads_under_the_route_it_was_given_wherever_it_is_read() {
    let fleet = Fleet::new(&["a", "b"]);
    let shards = fleet.builder().default_shard("a").build().unwrap();
    let made = shards
        .on("b", || Ok::<_, Error>(readings(&shards).in_current_route()))
        .unwrap();
    let given = readings(&shards).with_route(shards.route("b").unwrap());
    block_on(
        async {
            for mut stream in [made, given] {
                assert_eq!(stream.size_hint(), readings(&shards).size_hint());
                while let Some(name) = stream.next().await {
                    assert_eq!(name.unwrap(), "b");
                    assert_eq!(here(&shards).unwrap(), "a");
                }
            }
        }
        .with_route(shards.route("a").unwrap()),
    );
    assert_eq!(Route::stack_depth(), 0);
}

#[test]
fn a_bare_stream_that_is_read_outside_of_its_scope_has_no_route() {
    let fleet = Fleet::new(&["a", "b"]);
    let shards = fleet.manager();
    let mut bare = shards
        .on("b", || Ok::<_, Error>(readings(&shards)))
        .unwrap();
    let first = block_on(bare.next()).unwrap();
    assert!(matches!(first, Err(Error::NoRoute { .. })), "{first:?}");
}

#[test]
fn a_stream_that_is_dropped_half_way_is_dropped_under_its_stack() {
    struct Looks<'a>(&'a Manager, std::rc::Rc<std::cell::RefCell<String>>);
    impl Drop for Looks<'_> {
        fn drop(&mut self) {
            *self.1.borrow_mut() = here(self.0).unwrap_or_else(|error| error.to_string());
        }
    }
    let fleet = Fleet::new(&["b"]);
    let shards = fleet.manager();
    let seen = std::rc::Rc::default();
    let looks = Looks(&shards, std::rc::Rc::clone(&seen));
    let mut stream = stream::iter(0..3)
        .map(move |i| {
            let looks = &looks; // the whole of it is in the closure
            (i, looks.0.shards().len())
        })
        .with_route(shards.route("b").unwrap());
    assert_eq!(block_on(stream.next()), Some((0, 1)));
    drop(stream);
    assert_eq!(*seen.borrow(), "b");
    assert_eq!(Route::stack_depth(), 0);
}
