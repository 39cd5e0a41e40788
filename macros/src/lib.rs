//! The attributes and derives of `diesel-sharded`. Use them through its feature `macros`: what they
//! expand to names that crate's paths.
//!
//! Each macro reads its input into a plain structure (`arguments.rs`, `shape.rs`, `row.rs`), and
//! writes the expansion from it (`routed.rs`, `transaction.rs`, `derives.rs`). Whatever can be found
//! wrong from the tokens alone is an error at the token that is wrong; the rest is left to the type
//! checker, with spans that point at the user's own tokens.

mod arguments;
mod attempt;
mod derives;
mod routed;
mod row;
mod shape;
mod transaction;

use proc_macro::TokenStream;

/// Runs the body of a function under a route: `#[routed(keyspace = self.orders, key = order.user_id)]`
/// or `#[routed(shards = self.shards, shard = "order-1")]`.
///
/// The expressions are ordinary Rust over the function's arguments. They are evaluated once, before
/// anything else; where they fail, the body does not run and the function returns the error. The
/// function returns a `Result` whose error is `From<diesel::result::Error>`. The route is left on
/// return, `?` and panic, and an `async fn` holds it at each poll and leaves it when it is dropped.
///
/// | argument | meaning |
/// |---|---|
/// | `keyspace = EXPR, key = EXPR` | the route to the shard that owns the key; `keyspace` is a `Keyspace`, `key` any `ToShardKey` |
/// | `shards = EXPR, shard = EXPR` | the route to a shard by name; `shards` is a manager, `shard` any `AsRef<str>` |
/// | `workload = EXPR` | the workload class of the route |
/// | `crate = PATH` | where `diesel_sharded` is, if it has another name |
#[proc_macro_attribute]
pub fn routed(arguments: TokenStream, item: TokenStream) -> TokenStream {
    routed::expand(arguments.into(), item.into())
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}

/// Runs the body of a function in a transaction on one shard:
/// `#[sharded_transaction(keyspace = self.orders, key = order.user_id, retries = 3)]`.
///
/// The connection is the parameter marked `#[conn]`; callers do not pass it. `Ok` means committed.
/// The expressions are evaluated once, before anything else.
///
/// | argument | meaning |
/// |---|---|
/// | `keyspace = EXPR, key = EXPR` | on the shard that owns the key |
/// | `shards = EXPR, shard = EXPR` | on a shard by name |
/// | `isolation = ".."` | `"read committed"`, `"repeatable read"` or `"serializable"` |
/// | `read_only`, `immediate` | as the methods of the transaction builder |
/// | `retries = EXPR` | runs the body again, at most so often, after a serialization failure or a deadlock |
/// | `crate = PATH` | where `diesel_sharded` is, if it has another name |
///
/// With `retries`, an argument that the body mentions other than behind a `&`, or moves into a closure,
/// is cloned for each run: `order.total()` and `order.user_id` count as such a mention, since from the
/// tokens nobody sees whether they consume, while `&order.lines` and `(&order).total()` only look.
/// References are used by every run as they are. The body of an asynchronous function cannot change
/// anything through a `&mut` then, since each run is a future of its own.
#[proc_macro_attribute]
pub fn sharded_transaction(arguments: TokenStream, item: TokenStream) -> TokenStream {
    transaction::expand(arguments.into(), item.into())
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}

/// Says which keyspace a struct's rows live in and which field holds their shard key: implements
/// `HasShardKey`, and, where the struct has `#[diesel(table_name = ..)]` (or
/// `#[sharded(table = ..)]`), a method `insert_checked`.
///
/// `#[sharded(keyspace = "orders")]` stands at the struct, `#[shard_key]` at the field, or
/// `#[shard_key(path = "order.user_id")]` at the field that the path begins with. A path goes through
/// fields of structs, not through an `Option` on its way: the key is borrowed from the row, and where
/// there is no inner struct there is none to borrow. Its last field may be an `Option`: a `None` there
/// is `NullShardKey`.
#[proc_macro_derive(ShardKey, attributes(sharded, shard_key))]
pub fn shard_key(item: TokenStream) -> TokenStream {
    derives::shard_key(item.into())
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}

/// Makes a newtype a shard key: it is the key that its one field is.
///
/// `#[sharded(crate = PATH)]` says where `diesel_sharded` is, if it has another name.
#[proc_macro_derive(ToShardKey, attributes(sharded))]
pub fn to_shard_key(item: TokenStream) -> TokenStream {
    derives::to_shard_key(item.into())
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}
