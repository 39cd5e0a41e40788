use proptest::prelude::*;

use super::*;

const ALL: [UrlKind; 3] = [UrlKind::Sqlite, UrlKind::Postgres, UrlKind::Mysql];

fn texts(text: &str, kind: UrlKind) -> Vec<String> {
    split(text, kind)
        .unwrap_or_else(|error| panic!("{kind:?}: {error:?}: {text}"))
        .into_iter()
        .map(|statement| statement.text.to_string())
        .collect()
}

/// Each of these is one statement, so the three in a row are three.
fn is_one(statement: &str, kind: UrlKind) {
    let around = format!("SELECT 1;\n{statement};\nSELECT 2;\n");
    assert_eq!(
        texts(&around, kind),
        ["SELECT 1", statement, "SELECT 2"],
        "{kind:?}"
    );
    assert_eq!(texts(statement, kind), [statement], "{kind:?}");
}

#[test]
fn a_semicolon_in_a_string_name_or_comment_is_none() {
    for kind in ALL {
        for one in [
            "SELECT 'a;b'",
            "SELECT 'it''s; fine'",
            "SELECT /* a; b */ 1",
            "SELECT 1 -- a; b\n + 2",
            "-- first; a comment\nSELECT 1",
            "SELECT 'ä;ö', 'ß', '😀;'",
        ] {
            is_one(one, kind);
        }
    }
    is_one("SELECT \"a;b\"", UrlKind::Postgres);
    is_one("SELECT \"a;b\"", UrlKind::Sqlite);
    is_one("SELECT \"a;b\"", UrlKind::Mysql);
    is_one("SELECT [a;b]", UrlKind::Sqlite);
    is_one("SELECT `a;b`", UrlKind::Sqlite);
    is_one("SELECT `a;b`", UrlKind::Mysql);
    is_one("SELECT 1 # a; b\n + 2", UrlKind::Mysql);
    is_one(r"SELECT 'it\'s; fine'", UrlKind::Mysql);
    is_one(r"SELECT E'it\'s; fine'", UrlKind::Postgres);
    is_one("SELECT /* a /* b; */ c; */ 1", UrlKind::Postgres);
    is_one("SELECT '\\'", UrlKind::Sqlite);
    is_one("SELECT '\\'", UrlKind::Postgres);
    is_one("SELECT 5--1", UrlKind::Mysql);
}

#[test]
fn bodies_of_postgres_functions_are_whole() {
    for one in [
        "CREATE FUNCTION f() RETURNS int LANGUAGE plpgsql AS $$ BEGIN PERFORM 1; RETURN 2; END; $$",
        "DO $body$ BEGIN EXECUTE $q$ SELECT 1; $q$; END; $body$",
        "CREATE OR REPLACE FUNCTION f() RETURNS int LANGUAGE sql BEGIN ATOMIC SELECT 1; SELECT CASE WHEN true THEN 1 ELSE 2 END; END",
        "CREATE PROCEDURE p() LANGUAGE sql BEGIN ATOMIC INSERT INTO t VALUES (1); END",
        "CREATE RULE r AS ON INSERT TO t DO ALSO (INSERT INTO a VALUES (1); INSERT INTO b VALUES (2))",
        "CREATE FUNCTION begin() RETURNS int LANGUAGE sql AS 'SELECT 1; SELECT 2'",
        "CREATE INDEX CONCURRENTLY i ON t (a) WHERE b <> ';'",
        "ALTER TABLE t ADD CHECK (a ? 'b' AND c @> '{}' AND d #>> '{a;b}' = $$x;y$$)",
    ] {
        is_one(one, UrlKind::Postgres);
    }
}

#[test]
fn bodies_of_sqlite_triggers_are_whole() {
    for one in [
        "CREATE TRIGGER t AFTER INSERT ON a BEGIN UPDATE b SET n = 1; DELETE FROM c; END",
        "CREATE TEMP TRIGGER IF NOT EXISTS t AFTER UPDATE OF x ON a FOR EACH ROW WHEN NEW.x > 1 BEGIN SELECT CASE WHEN NEW.x THEN RAISE(ABORT, 'no; never') END; END",
        "create trigger t after insert on a begin insert into b values (new.begin, new.end, case new.x when 1 then 2 else 3 end); end",
        "CREATE TRIGGER t BEFORE DELETE ON a BEGIN SELECT 1 AS \"end\"; SELECT end FROM c; END",
    ] {
        is_one(one, UrlKind::Sqlite);
    }
}

#[test]
fn bodies_of_mysql_routines_need_no_delimiter() {
    for one in [
        "CREATE TRIGGER t BEFORE INSERT ON a FOR EACH ROW SET NEW.x = 1",
        "CREATE TRIGGER t BEFORE INSERT ON a FOR EACH ROW BEGIN SET NEW.x = 1; SET NEW.y = 2; END",
        "CREATE TRIGGER t BEFORE INSERT ON a FOR EACH ROW IF NEW.x < 0 THEN SET NEW.x = 0; END IF",
        "CREATE DEFINER = `root`@`localhost` TRIGGER t AFTER UPDATE ON a FOR EACH ROW BEGIN IF NEW.x THEN BEGIN DELETE FROM b; END; END IF; END",
        "CREATE PROCEDURE p(n INT) BEGIN DECLARE i INT DEFAULT 0; WHILE i < n DO SET i = i + 1; END WHILE; REPEAT SET i = i - 1; UNTIL i = 0 END REPEAT; END",
        "CREATE PROCEDURE p() BEGIN again: LOOP LEAVE again; END LOOP again; CASE 1 WHEN 1 THEN SELECT 1; ELSE BEGIN END; END CASE; END",
        "CREATE OR REPLACE FUNCTION f(a INT) RETURNS INT DETERMINISTIC BEGIN RETURN IF(a > 1, CASE a WHEN 2 THEN 3 ELSE 4 END, REPEAT('x', 2)); END",
        "CREATE FUNCTION f(a INT) RETURNS INT DETERMINISTIC RETURN IF(a > 1, 2, 3)",
        "CREATE PROCEDURE IF NOT EXISTS p() SELECT 1",
        "CREATE PROCEDURE p() IF 1 THEN SELECT 1; ELSEIF 2 THEN SELECT 2; ELSE SELECT 3; END IF",
        "CREATE EVENT e ON SCHEDULE EVERY 1 HOUR DO BEGIN DELETE FROM a; DELETE FROM b; END",
        "CREATE TABLE IF NOT EXISTS begin_end (a INT)",
    ] {
        is_one(one, UrlKind::Mysql);
    }
}

/// In a `CASE` expression, `THEN` and `ELSE` begin no statement; a loop of MariaDB's is one, while
/// `FOR EACH ROW` and `FOR UPDATE` are none.
#[test]
fn words_of_flow_in_other_places_open_nothing() {
    for one in [
        "CREATE FUNCTION f(a INT) RETURNS INT DETERMINISTIC RETURN CASE WHEN a > 1 THEN IF(a > 2, 1, 2) ELSE REPEAT('1', 2) END",
        "CREATE FUNCTION f(a INT) RETURNS INT BEGIN RETURN CASE a WHEN 1 THEN IF(a, 1, 2) ELSE CASE a WHEN 2 THEN 3 END END; END",
        "CREATE PROCEDURE p() BEGIN DO IF(1, 2, 3); SELECT 1; END",
        "CREATE PROCEDURE p() BEGIN FOR i IN 1..3 DO INSERT INTO t VALUES (i); END FOR; SELECT 1; END",
        "CREATE PROCEDURE p() FOR r IN (SELECT a FROM t) DO INSERT INTO b VALUES (r.a); END FOR",
        "CREATE PROCEDURE p() SELECT a FROM t WHERE (a > 1) FOR UPDATE",
        "CREATE TRIGGER t BEFORE INSERT ON data FOR EACH ROW FOR i IN 1..2 DO SET NEW.x = i; END FOR",
        "CREATE PROCEDURE p() BEGIN DECLARE EXIT HANDLER FOR SQLEXCEPTION, SQLSTATE '23000', 1062 BEGIN ROLLBACK; END; START TRANSACTION; COMMIT; END",
        "CREATE PROCEDURE p() BEGIN DECLARE CONTINUE HANDLER FOR odd SET @a = IF(1, 2, 3); SELECT 1; END",
        "CREATE PROCEDURE p() BEGIN DECLARE c CURSOR FOR SELECT 1; DECLARE EXIT HANDLER FOR NOT FOUND BEGIN END; REPEAT SET @a = 1; UNTIL CASE WHEN 1 THEN 1 END END REPEAT; END",
    ] {
        is_one(one, UrlKind::Mysql);
    }
}

#[test]
fn code_that_mariadb_takes_without_a_routine_is_whole() {
    for one in [
        "BEGIN NOT ATOMIC CREATE TABLE a (i INT); CREATE TABLE b (i INT); END",
        "begin /* ; */ not atomic declare x int default 1; if x then begin select 1; end; end if; end",
        "again: BEGIN NOT ATOMIC SELECT 1; LEAVE again; SELECT 2; END",
        "BEGIN NOT ATOMIC END",
        "IF (SELECT count(*) FROM t) = 0 THEN INSERT INTO t VALUES (1); ELSEIF 1 THEN SELECT 1; ELSE SELECT IF(1, 2, 3); END IF",
        "if not exists (select 1 from t) then create table if not exists b (i int); drop table if exists c; end if",
        "l: LOOP SET @a = 1; LEAVE l; END LOOP l",
        "WHILE @a < 3 DO SET @a = @a + 1; END WHILE",
        "REPEAT SET @a = @a + 1; UNTIL @a > 3 END REPEAT",
        "FOR i IN 1..3 DO INSERT INTO t VALUES (i); INSERT INTO t VALUES (-i); END FOR",
        "FOR r IN (SELECT a FROM t FOR UPDATE) DO SELECT r.a; END FOR",
        "CASE @a WHEN 1 THEN SELECT 1; SELECT 2; ELSE SELECT CASE WHEN 1 THEN 2 END; END CASE",
    ] {
        is_one(one, UrlKind::Mysql);
        let statement = &split(one, UrlKind::Mysql).unwrap()[0];
        assert!(!statement.fits_a_transaction(UrlKind::Mysql), "{one}");
        assert!(!statement.is_transaction_control(UrlKind::Mysql), "{one}");
        assert!(statement.may_fail_half_way(UrlKind::Mysql), "{one}");
    }
    // What begins alike and is no code.
    for text in [
        "BEGIN; INSERT INTO t VALUES (1); COMMIT",
        "BEGIN WORK; DELETE FROM t WHERE NOT a; COMMIT WORK",
        "DROP TABLE IF EXISTS a; CREATE TABLE IF NOT EXISTS a (i INT); SELECT IF(1, 2, 3)",
        "SELECT CASE WHEN 1 THEN 2 END; SELECT REPEAT('x', 2); SELECT 3",
        "DO SLEEP(0); DO IF(1, 2, 3); REPLACE INTO t VALUES (1)",
    ] {
        assert_eq!(texts(text, UrlKind::Mysql).len(), 3, "{text}");
    }
}

#[test]
fn a_copy_with_the_client_is_refused() {
    for (copy, told) in [
        ("copy t from stdin", "FROM STDIN"),
        ("COPY t TO STDOUT", "TO STDOUT"),
        (
            "-- rows\ncOpY /* from 'a' */ s.\"t\" (a, \"from\") /* x */ FROM -- y\n stdin WITH (FORMAT csv)",
            "FROM STDIN",
        ),
        (
            "COPY (SELECT a FROM t WHERE b = 'TO STDIN') TO STDOUT CSV",
            "TO STDOUT",
        ),
        ("COPY s.to FROM stdin", "FROM STDIN"),
        ("COPY t TO stdin", "TO STDIN"),
        ("COPY BINARY t FROM stdin", "FROM STDIN"),
    ] {
        for text in [
            copy.to_owned(),
            format!("{copy};"),
            format!("{copy};\n1\tit's\n\\.\n"),
        ] {
            let text = format!("SELECT 1;\n{text}");
            match split(&text, UrlKind::Postgres) {
                Err(Uncut::Refused(problem)) => {
                    assert!(
                        problem.contains(&format!("COPY .. {told} (its statement 2)")),
                        "{problem}"
                    );
                    assert!(problem.contains("INSERT"), "{problem}");
                }
                other => panic!("{text}: {other:?}"),
            }
        }
    }
    // Behind what cannot be read, a guess is as good as it gets.
    let unread = "SELECT 'a; COPY t FROM STDIN;";
    assert!(matches!(
        split(unread, UrlKind::Postgres),
        Err(Uncut::Refused(_))
    ));
    for fine in [
        "COPY t FROM '/tmp/stdin'",
        "COPY t (stdin) FROM PROGRAM 'cat stdin'",
        "COPY (SELECT stdout FROM stdin) TO '/tmp/x'",
        "COPY t FROM '/tmp/x' WHERE a IS DISTINCT FROM stdout",
        "COPY \"copy\" FROM $$/tmp/copy from stdin$$",
        "SELECT 'COPY t FROM STDIN'",
        "COMMENT ON TABLE t IS 'copy t from stdin'",
        "SELECT copy FROM stdin",
        "DO $$ BEGIN PERFORM 'copy t from stdin'; END $$",
    ] {
        is_one(fine, UrlKind::Postgres);
    }
    is_one("SELECT copy FROM stdin", UrlKind::Sqlite);
    // The tokenizer takes what follows for rows; it is cut all the same, and what is sent is as it was.
    let column = "COPY t FROM '/tmp/x' WHERE a IS DISTINCT FROM STDIN AND stdin > 1";
    for (end, more) in [("", ""), (";", ""), (";\n", "SELECT 'ä;' FROM stdin")] {
        let found = texts(&format!("{column}{end}{more}"), UrlKind::Postgres);
        let expected: Vec<&str> = [column, more]
            .into_iter()
            .filter(|one| !one.is_empty())
            .collect();
        assert_eq!(found, expected);
    }
    let both = format!("{column};\nCOPY t FROM stdin;\n1\n\\.\nSELECT 1");
    let refused = split(&both, UrlKind::Postgres);
    assert!(matches!(refused, Err(Uncut::Refused(text)) if text.contains("its statement 2")));
}

#[test]
fn a_text_that_changes_how_it_is_quoted_is_told() {
    for (text, kind, setting) in [
        (
            r"SET sql_mode = 'NO_BACKSLASH_ESCAPES'; SELECT 'a\'; SELECT 1",
            UrlKind::Mysql,
            "NO_BACKSLASH_ESCAPES",
        ),
        (
            r"set @@session.sql_mode = concat(@@sql_mode, ',no_backslash_escapes'); SELECT 'a\'",
            UrlKind::Mysql,
            "NO_BACKSLASH_ESCAPES",
        ),
        (
            r"SET standard_conforming_strings = off; SELECT 'a\''",
            UrlKind::Postgres,
            "standard_conforming_strings",
        ),
        (
            r"SELECT set_config('standard_conforming_strings', 'off', true); SELECT 'a\'b'",
            UrlKind::Postgres,
            "standard_conforming_strings",
        ),
    ] {
        match split(text, kind) {
            Err(Uncut::Refused(problem)) => {
                assert!(
                    problem.contains(&format!("{setting} in its statement 1")),
                    "{problem}"
                );
            }
            other => panic!("{text}: {other:?}"),
        }
    }
    for (text, kind) in [
        (
            "SET sql_mode = 'NO_BACKSLASH_ESCAPES'; SELECT 'a'",
            UrlKind::Mysql,
        ),
        (
            r"SET sql_mode = REPLACE(@@sql_mode, 'NO_BACKSLASH_ESCAPES', ''); SELECT 'it\'s'",
            UrlKind::Mysql,
        ),
        (
            r"SET standard_conforming_strings = on; SELECT 'a\'",
            UrlKind::Postgres,
        ),
        (r"SET search_path = off; SELECT 'a\'", UrlKind::Postgres),
    ] {
        assert_eq!(texts(text, kind).len(), 2, "{text}");
    }
}

#[test]
fn what_counts_of_a_statement_is_not_its_layout() {
    let of = |text: &str| essence(text, UrlKind::Mysql);
    assert_eq!(
        of("-- first\nSELECT  1\r\n+ 2 /* b */"),
        of("SELECT 1 + 2 # c")
    );
    assert_ne!(of("SELECT 'a b'"), of("SELECT 'a  b'"));
    assert_ne!(of("SELECT a"), of("SELECT A"));
    assert_ne!(of("SELECT 1 /*! + 1 */"), of("SELECT 1"));
    assert_ne!(of("SELECT /*+ BKA(t) */ 1"), of("SELECT 1"));
}

#[test]
fn a_line_of_the_mysql_client_is_told() {
    let problem = String::from(split("DELIMITER //\nSELECT 1 //\n", UrlKind::Mysql).unwrap_err());
    assert!(problem.contains("DELIMITER"), "{problem}");
}

#[test]
fn transactions_by_hand_are_statements_and_not_bodies() {
    for kind in [UrlKind::Sqlite, UrlKind::Postgres, UrlKind::Mysql] {
        let found = split("BEGIN; SELECT CASE WHEN 1=1 THEN 2 END; COMMIT;", kind).unwrap();
        assert_eq!(found.len(), 3, "{kind:?}");
        let controls: Vec<bool> = found
            .iter()
            .map(|statement| statement.is_transaction_control(kind))
            .collect();
        assert_eq!(controls, [true, false, true]);
    }
    let of = |text: &str| {
        split(text, UrlKind::Postgres).unwrap()[0].is_transaction_control(UrlKind::Postgres)
    };
    assert!(of("start transaction isolation level serializable"));
    assert!(of("end"));
    assert!(of("rollback"));
    assert!(!of("rollback to savepoint a"));
    assert!(!of("prepare p as select 1"));
}

#[test]
fn a_comment_that_mariadb_runs_is_refused() {
    for text in [
        "CREATE TABLE a (id INT); /*M!100100 CREATE TABLE b (id INT) */;",
        "INSERT INTO a VALUES (1 /*M! + 1 */)",
    ] {
        let refused = split(text, UrlKind::Mysql);
        assert!(
            matches!(&refused, Err(Uncut::Refused(why)) if why.contains("/*M! .. */")),
            "{text}: {refused:?}"
        );
        assert!(split(text, UrlKind::Sqlite).is_ok());
    }
    let dump = "/*M!999999\\- enable the sandbox mode */\nCREATE TABLE a (id INT)";
    assert!(matches!(split(dump, UrlKind::Mysql), Ok(found) if found.len() == 1));
}

#[test]
fn what_takes_the_session_from_its_records_is_known() {
    let hides = |text: &str, kind: UrlKind| {
        let statements = split(text, kind).expect(text);
        statements
            .iter()
            .any(|one| one.hides_the_books(kind).is_some())
    };
    for text in [
        "USE other",
        "LOCK TABLES k WRITE",
        "SET autocommit = 0",
        "SET SESSION autocommit=0",
    ] {
        assert!(hides(text, UrlKind::Mysql), "{text}");
        assert!(!hides(text, UrlKind::Sqlite), "{text}");
    }
    assert!(hides("SET search_path TO o", UrlKind::Postgres));
    assert!(hides("SET SESSION search_path = ''", UrlKind::Postgres));
    for text in [
        "SET LOCAL search_path TO o",
        "SET lock_timeout = 5",
        "SELECT 1 FROM search_path",
    ] {
        assert!(!hides(text, UrlKind::Postgres), "{text}");
    }
    for text in [
        "SET @x = 7",
        "LOCK INSTANCE FOR BACKUP",
        "UPDATE autocommit SET a = 1",
    ] {
        assert!(!hides(text, UrlKind::Mysql), "{text}");
    }
}

#[test]
fn nothing_but_comments_is_no_statement() {
    for kind in ALL {
        for text in [
            "",
            " \n\t",
            ";;;",
            "-- only\n",
            "/* only */;\n-- more",
            "\u{feff}",
        ] {
            assert!(texts(text, kind).is_empty(), "{kind:?} {text:?}");
        }
    }
}

#[test]
fn what_is_not_closed_is_told() {
    for kind in ALL {
        assert!(split("SELECT 'a; SELECT 2;", kind).is_err(), "{kind:?}");
        // To SQLite the end of the text closes a comment; whoever judges, nothing is cut out of it.
        let comment = "SELECT 1 /* a; SELECT 2;";
        assert!(
            split(comment, kind).is_err() || texts(comment, kind) == [comment],
            "{kind:?}"
        );
    }
    let unclosed = split("SELECT $a$ b; SELECT 2;", UrlKind::Postgres).unwrap_err();
    assert!(matches!(unclosed, Uncut::Unclear(problem) if problem.contains("default rules")));
}

#[test]
fn line_ends_of_every_kind_keep_their_place() {
    let text = "CREATE TABLE a (x INT);\r\nCREATE TABLE ä (y INT);\r\n\r\n-- ü;\r\nCREATE TABLE b (z INT);\r\n";
    for kind in ALL {
        assert_eq!(
            texts(text, kind),
            [
                "CREATE TABLE a (x INT)",
                "CREATE TABLE ä (y INT)",
                "-- ü;\r\nCREATE TABLE b (z INT)"
            ]
        );
    }
}

proptest! {
    /// Statements made of pieces that hide semicolons come out as they went in.
    #[test]
    fn statements_come_out_as_they_went_in(
        pieces in prop::collection::vec(
            prop::collection::vec(
                prop::sample::select(vec![
                    "a", "'x;y'", "'ä''😀;'", "/* c; */", "(1, (2))", "\n", ", ", "CASE", "END", "BEGIN", "1.5e3", "<>", "x'00'",
                ]),
                1..8,
            ),
            1..6,
        ),
        which in 0usize..3,
    ) {
        let kind = ALL[which];
        let statements: Vec<String> = pieces
            .iter()
            .map(|parts| format!("SELECT {}", parts.join(" ")).trim().to_owned())
            .collect();
        prop_assert_eq!(texts(&statements.join(";\n"), kind), statements);
    }

    /// Whatever the text, nothing is lost and nothing panics.
    #[test]
    fn nothing_is_lost(text in ".{0,80}", which in 0usize..3) {
        if let Ok(statements) = split(&text, ALL[which]) {
            let mut rest = text.as_str();
            for statement in statements {
                let at = rest.find(&*statement.text);
                prop_assert!(at.is_some());
                rest = &rest[at.unwrap_or(0) + statement.text.len()..];
            }
        }
    }
}
