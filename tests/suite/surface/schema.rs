//! The tables of these tests, and a few rows.

use diesel::connection::SimpleConnection;
use diesel::prelude::*;

use super::NAME;

diesel::table! {
    users (id) {
        id -> Integer,
        name -> VarChar,
        hair_color -> Nullable<VarChar>,
    }
}

diesel::table! {
    posts (id) {
        id -> Integer,
        user_id -> Integer,
        title -> VarChar,
    }
}

diesel::table! {
    defaults (id) {
        id -> Integer,
        note -> VarChar,
        amount -> BigInt,
    }
}

diesel::joinable!(posts -> users (user_id));
diesel::allow_tables_to_appear_in_same_query!(users, posts, defaults);

#[derive(Clone, Debug, PartialEq, Eq, Hash, Queryable, Selectable, Identifiable, AsChangeset)]
#[diesel(table_name = users, treat_none_as_null = true)]
pub(crate) struct User {
    pub(crate) id: i32,
    pub(crate) name: String,
    pub(crate) hair_color: Option<String>,
}

#[derive(Insertable)]
#[diesel(table_name = users)]
pub(crate) struct NewUser<'a> {
    pub(crate) name: &'a str,
    pub(crate) hair_color: Option<&'a str>,
}

#[derive(Clone, Debug, PartialEq, Eq, Queryable, Selectable, Identifiable, Associations)]
#[diesel(table_name = posts, belongs_to(User))]
pub(crate) struct Post {
    pub(crate) id: i32,
    pub(crate) user_id: i32,
    pub(crate) title: String,
}

/// Makes the tables, in the backend's own words.
pub(crate) fn create(conn: &mut impl SimpleConnection) {
    let id = match NAME {
        "sqlite" => "INTEGER PRIMARY KEY AUTOINCREMENT",
        "postgres" => "SERIAL PRIMARY KEY",
        _ => "INTEGER AUTO_INCREMENT PRIMARY KEY",
    };
    conn.batch_execute(&format!(
        "CREATE TABLE users (
             id {id}, name VARCHAR(50) NOT NULL UNIQUE, hair_color VARCHAR(50));
         CREATE TABLE posts (
             id {id}, user_id INTEGER NOT NULL, title VARCHAR(50) NOT NULL,
             FOREIGN KEY (user_id) REFERENCES users (id));
         CREATE TABLE defaults (
             id {id}, note VARCHAR(50) NOT NULL DEFAULT 'none', amount BIGINT NOT NULL DEFAULT 42);",
    ))
    .expect("the tables are made");
}

/// Three users, the first with two posts and the second with one.
pub(crate) fn fill(conn: &mut impl SimpleConnection) {
    conn.batch_execute(
        "INSERT INTO users (name, hair_color) VALUES
             ('Sean', 'black'), ('Tess', NULL), ('Jim', 'black');
         INSERT INTO posts (user_id, title) VALUES (1, 'one'), (1, 'two'), (2, 'three');",
    )
    .expect("the rows are inserted");
}

/// The names of the users, in the order of their ids.
pub(crate) fn names<C>(conn: &mut C) -> Vec<String>
where
    C: diesel::connection::LoadConnection<Backend = super::Db>,
{
    users::table
        .order(users::id)
        .select(users::name)
        .load(conn)
        .expect("the names are read")
}
