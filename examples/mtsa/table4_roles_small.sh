#!/usr/bin/env bash
# Semantic roles in EWT, small models. --help explains.
exec bash "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh" mtsa/table4_roles_small "$@"
