//! Rows that belong to rows.

use diesel::prelude::*;

use super::both;
use super::schema::{self, Post, User, users};

#[test]
fn children_are_loaded_and_grouped() {
    through_both!(|conn| {
        schema::fill(conn);
        let everybody: Vec<User> = users::table.order(users::id).load(conn).unwrap();
        let of_one: Vec<Post> = Post::belonging_to(&everybody[0]).load(conn).unwrap();
        assert_eq!(of_one.len(), 2);

        let posts: Vec<Post> = Post::belonging_to(&everybody)
            .select(Post::as_select())
            .load(conn)
            .unwrap();
        let by_user: Vec<(String, Vec<String>)> = posts
            .grouped_by(&everybody)
            .into_iter()
            .zip(&everybody)
            .map(|(posts, user)| {
                let mut titles: Vec<_> = posts.into_iter().map(|post| post.title).collect();
                titles.sort_unstable();
                (user.name.clone(), titles)
            })
            .collect();
        let shown: Vec<_> = by_user
            .iter()
            .map(|(name, titles)| format!("{name}: {}", titles.join(" ")))
            .collect();
        assert_eq!(shown, ["Sean: one two", "Tess: three", "Jim: "]);
    });
}
