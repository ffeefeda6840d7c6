"""From measured collectives to the constants of links and libraries."""
