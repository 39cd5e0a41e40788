//! `#[derive(ShardKey)]` and `#[derive(ToShardKey)]`.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{DeriveInput, Error, Index, Member, Result};

use crate::row::{self, Row};

pub(crate) fn shard_key(item: TokenStream) -> Result<TokenStream> {
    let input: DeriveInput = syn::parse2(item)?;
    let row = Row::read(&input)?;
    let Row {
        keyspace,
        key,
        key_span,
        krate,
        ..
    } = &row;
    let name = &input.ident;
    let (generics, arguments, bounds) = input.generics.split_for_impl();
    let asked = quote_spanned! {*key_span=>
        #krate::ToShardKey::to_shard_key(&self #key)
    };
    let insert = row.table.as_ref().map(|table| {
        // Not to be mixed up with a parameter of the struct's own.
        let connection = Ident::new("Connection", Span::mixed_site());
        quote! {
            #[automatically_derived]
            impl #generics #name #arguments #bounds {
                /// Inserts the row, if the connection belongs to the shard that owns its key.
                ///
                /// # Errors
                ///
                /// `WrongShard` when the key belongs to another shard, `NullShardKey` when it is
                /// `None` (nothing is sent then); Diesel's own error of the statement.
                pub fn insert_checked<'__row, #connection>(
                    &'__row self,
                    conn: &'__row mut #connection,
                ) -> <#connection as #krate::InsertChecked<#table::table, Self>>::Inserted<'__row>
                where
                    #connection: #krate::InsertChecked<#table::table, Self>,
                {
                    #krate::InsertChecked::<#table::table, Self>::insert_checked(conn, #table::table, self)
                }
            }
        }
    });
    Ok(quote! {
        #[automatically_derived]
        impl #generics #krate::HasShardKey for #name #arguments #bounds {
            const KEYSPACE: &'static str = #keyspace;

            fn shard_key(&self) -> #krate::ShardKey<'_> {
                #asked
            }
        }

        #insert
    })
}

pub(crate) fn to_shard_key(item: TokenStream) -> Result<TokenStream> {
    let input: DeriveInput = syn::parse2(item)?;
    let krate = row::krate(&input)?;
    let fields = row::newtype_fields(&input)?;
    let mut all = fields.iter();
    let (Some(field), None) = (all.next(), all.next()) else {
        return Err(Error::new(
            input.ident.span(),
            "a newtype has one field, and is the key that this field is; implement `ToShardKey` by hand for anything else",
        ));
    };
    let member = match &field.ident {
        Some(name) => Member::Named(name.clone()),
        None => Member::Unnamed(Index::from(0)),
    };
    let name = &input.ident;
    let ty = &field.ty;
    let mut generics = input.generics.clone();
    if !generics.params.is_empty() {
        generics
            .make_where_clause()
            .predicates
            .push(syn::parse_quote!(#ty: #krate::ToShardKey));
    }
    let (generics, arguments, bounds) = generics.split_for_impl();
    // All of the path at the type, so that it is where a type that is no key is named.
    let at_type: TokenStream = (krate.clone().into_iter())
        .map(|mut token| {
            token.set_span(ty.span());
            token
        })
        .collect();
    let asked = quote_spanned! {ty.span()=>
        #at_type::ToShardKey::to_shard_key(&self.#member)
    };
    Ok(quote! {
        #[automatically_derived]
        impl #generics #krate::ToShardKey for #name #arguments #bounds {
            #[inline]
            fn to_shard_key(&self) -> #krate::ShardKey<'_> {
                #asked
            }
        }
    })
}
