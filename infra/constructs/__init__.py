"""One capability each: keyword-only in, public attributes out."""
