-- failure: the history of what went wrong with a task: the last 25 failures, with the phase in which each happened.

local note_failure

do
local ERRORS_KEPT, ERROR_BYTES, DETAIL_BYTES = 25, 4096, 1024

function note_failure(id, rec, failure)
  local entry = cmsgpack.pack({ k = failure.kind, m = string.sub(failure.message or '', 1, ERROR_BYTES), n = rec.n,
    w = rec.w ~= '' and rec.w or nil, at = now, ph = rec.ph and rec.ph.n, pd = rec.ph and (rec.ph.e or now) - rec.ph.at,
    x = failure.detail and #failure.detail <= DETAIL_BYTES and failure.detail or nil })
  local errors = Q .. 'errors:' .. id
  local found = call('TYPE', errors).ok
  if found ~= 'list' and found ~= 'none' then
    call('DEL', errors)
  end
  call('RPUSH', errors, entry)
  call('LTRIM', errors, -ERRORS_KEPT, -1)
  rec.fk = failure.kind
end
end
