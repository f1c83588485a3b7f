-- F: B made lean: fields at their default are absent (joined before B.lua).
V.lean = true
