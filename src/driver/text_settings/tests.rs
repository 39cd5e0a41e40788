//! What is refused, and what is sent.

use super::*;

fn refused(dialect: Dialect, texts: &[&str]) {
    for text in texts {
        assert!(refusal(dialect, text).is_some(), "{text}");
    }
}

fn sent(dialect: Dialect, texts: &[&str]) {
    for text in texts {
        assert_eq!(refusal(dialect, text), None, "{text}");
    }
}

#[test]
fn plain_literals_of_postgres_stay_plain() {
    refused(
        Dialect::Postgres,
        &[
            "SET standard_conforming_strings = off",
            "set Standard_Conforming_Strings to 'off'",
            "SET LOCAL standard_conforming_strings=0",
            "SET SESSION standard_conforming_strings TO false",
            "SET \"standard_conforming_strings\" = of",
            "SET standard_conforming_strings = E'o\\146f'",
            "SET /* a */ standard_conforming_strings -- b\n = off",
            "SELECT 1; SET standard_conforming_strings = off; SELECT 2",
            "SELECT 'a;b', $x$ ' $x$; SET standard_conforming_strings = off",
            "SELECT E'\\''; SET standard_conforming_strings = off; SELECT ''",
            "ALTER ROLE app SET standard_conforming_strings = off",
            "ALTER DATABASE shop SET standard_conforming_strings TO 'off'",
            "ALTER ROLE app IN DATABASE shop SET standard_conforming_strings TO off",
            "ALTER SYSTEM SET standard_conforming_strings = off",
            "SELECT set_config('standard_conforming_strings', 'off', false)",
            "SELECT pg_catalog.set_config ( 'Standard_conforming_strings' , $1, true)",
            "SELECT set_config('standard_conforming_strings', 'o' || 'n', true)",
            "SELECT set_config(new_value => 'off', setting_name => 'standard_conforming_strings', is_local => true)",
            "UPDATE pg_settings SET setting = 'off' WHERE name = 'standard_conforming_strings'",
            "DO $$ BEGIN SET standard_conforming_strings = off; END $$",
            "DO $$ BEGIN EXECUTE 'SET standard_conforming_strings = off'; END $$",
            "CREATE FUNCTION f() RETURNS int AS 'SELECT 1' LANGUAGE sql SET standard_conforming_strings = off",
        ],
    );
    sent(
        Dialect::Postgres,
        &[
            "SET standard_conforming_strings = on",
            "SET standard_conforming_strings TO 'On'; SELECT 1",
            "SET standard_conforming_strings TO DEFAULT",
            "RESET standard_conforming_strings",
            "RESET ALL",
            "SHOW standard_conforming_strings",
            "SELECT current_setting('standard_conforming_strings') = 'off'",
            "SELECT set_config('standard_conforming_strings', 'on', false)",
            "INSERT INTO notes VALUES ('SET standard_conforming_strings = off')",
            "SELECT 1 -- SET standard_conforming_strings = off",
            "/* /* */ SET standard_conforming_strings = off */ SELECT 1",
            "SELECT * FROM pg_settings WHERE name = 'standard_conforming_strings'",
            "UPDATE t SET standard_conforming_strings = false",
            "SET search_path = off",
            "SET sql_mode = 'ANSI'",
        ],
    );
}

#[test]
fn the_modes_of_mysql_leave_literals_alone() {
    refused(
        Dialect::Mysql,
        &[
            "SET sql_mode = 'ANSI_QUOTES'",
            "set SQL_MODE := \"strict_trans_tables, no_backslash_escapes\"",
            "SET SESSION sql_mode = ansi",
            "SET GLOBAL sql_mode = 'ORACLE'",
            "SET @@sql_mode='MSSQL'",
            "SET @@session.sql_mode='DB2', autocommit = 1",
            "SET autocommit = 1, @@GLOBAL.`sql_mode` = 'MAXDB'",
            "SET PERSIST sql_mode = 'POSTGRESQL'",
            "SET sql_mode = @old",
            "SET sql_mode = @@GLOBAL.sql_mode",
            "SET sql_mode = DEFAULT",
            "SET sql_mode = 4",
            "SET sql_mode = '4'",
            "SET sql_mode = ?",
            "SET sql_mode = 'A' 'NSI'",
            "SET sql_mode = _utf8'ANSI'",
            "SET sql_mode = x'414E5349'",
            "SET sql_mode = 'ANSI\\_QUOTES'",
            "SET sql_mode = CONCAT(@@sql_mode, ',STRICT_TRANS_TABLES')",
            "SET sql_mode = 'ÁNSI'",
            "SET STATEMENT sql_mode = 'ANSI' FOR SELECT 1",
            "SELECT '\\''; SET sql_mode = 'ANSI'",
            "SELECT 1;# a\nSET sql_mode = 'ANSI'",
            "/*!50000 SET sql_mode = 'ANSI' */",
            "/*M!100100 SET sql_mode = 'ANSI' */",
            "SELECT /*+ SET_VAR(sql_mode = 'ANSI') */ 1",
            "PREPARE s FROM 'SET sql_mode = ANSI'",
            "EXECUTE IMMEDIATE \"SET sql_mode = 'ANSI'\"",
            "CREATE PROCEDURE p(m TEXT) BEGIN SELECT 1; SET sql_mode = 'ANSI'; END",
            "CREATE PROCEDURE p(m TEXT) SET sql_mode = m",
        ],
    );
    sent(
        Dialect::Mysql,
        &[
            "SET sql_mode = ''",
            "SET sql_mode = 'STRICT_TRANS_TABLES, NO_ENGINE_SUBSTITUTION'",
            "SET SESSION sql_mode = TRADITIONAL, autocommit = 1",
            "SET @@session.sql_mode = 'PIPES_AS_CONCAT'; SELECT 1",
            "SET STATEMENT sql_mode = 'STRICT_TRANS_TABLES' FOR SELECT 1",
            "SELECT /*+ SET_VAR(sql_mode = 'STRICT_TRANS_TABLES') */ 1",
            "SELECT @@sql_mode = 'ANSI'",
            "SET @sql_mode = 'ANSI'",
            "SHOW VARIABLES LIKE 'sql_mode'",
            "SELECT 1 # SET sql_mode = 'ANSI'",
            "SELECT 1 -- SET sql_mode = 'ANSI'",
            "/* SET sql_mode = 'ANSI' */ SELECT 1",
            "INSERT INTO notes VALUES ('it''s', \"SET sql_mode = 'ANSI'\")",
            "UPDATE events SET sql_mode = 'ANSI' WHERE id = 1",
            "SET standard_conforming_strings = off",
        ],
    );
}

#[test]
fn no_text_makes_it_stumble() {
    for text in [
        "SET sql_mode",
        "SET sql_mode =",
        "sql_mode '",
        "sql_mode $",
        "sql_mode $ä$",
        "sql_mode /*",
        "sql_mode \"",
        "sql_mode '\\",
        "standard_conforming_strings $a$ b",
        "=sql_mode=",
        "é sql_mode = ü",
        "set_config('standard_conforming_strings'",
        "standard_conforming_strings E'\\",
    ] {
        for dialect in [Dialect::Sqlite, Dialect::Postgres, Dialect::Mysql] {
            let _ = refusal(dialect, text);
        }
    }
}

#[cfg(any(feature = "postgres", feature = "async-postgres"))]
#[test]
fn what_reset_would_make_of_it_counts() {
    let settings = |one: &str, other: &str| Settings {
        one: one.to_owned(),
        other: other.to_owned(),
    };
    assert_eq!(settings("on", "on").postgres_problem(), None);
    for (one, other) in [("off", "on"), ("off", "off"), ("on", "off")] {
        assert!(settings(one, other).postgres_problem().is_some());
    }
}

#[cfg(any(feature = "mysql", feature = "async-mysql"))]
#[test]
fn a_mode_with_quotes_and_a_server_blind_to_case_are_told() {
    let problem = |one: &str, other: &str| {
        let (one, other) = (one.to_owned(), other.to_owned());
        Settings { one, other }.mysql_problem()
    };
    assert_eq!(problem("", "0"), None);
    assert_eq!(problem("STRICT_TRANS_TABLES,NO_ZERO_DATE", "0"), None);
    let quotes = problem("PIPES_AS_CONCAT,ANSI_QUOTES,ANSI", "0").unwrap_or_default();
    assert!(quotes.contains("has ANSI_QUOTES"), "{quotes}");
    let blind = problem("", "1").unwrap_or_default();
    assert!(blind.contains("lower_case_table_names is 1"), "{blind}");
}

#[test]
fn settings_by_a_name_that_is_not_to_be_seen_are_refused() {
    refused(
        Dialect::Postgres,
        &[
            "UPDATE pg_catalog.pg_settings SET setting = 'off' WHERE name LIKE 'standard_conf%'",
            "SELECT set_config(E'standard\\x5fconforming_strings', 'off', false)",
            "SELECT set_config(U&'standard\\005fconforming_strings', 'off', false)",
            "SELECT set_config(name, 'off', false) FROM pg_settings",
            "SELECT set_config('standard_'\n'conforming_strings', 'off', false)",
        ],
    );
    sent(
        Dialect::Postgres,
        &[
            "SELECT set_config('search_path', 'shop', false)",
            "SELECT setting FROM pg_settings WHERE name = 'client_encoding'",
            "SET client_encoding = 'UTF8'",
        ],
    );
}
