"""What narrows or charges candidates: pins, degrees, soft constraints."""
