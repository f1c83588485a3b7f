-- plain_new: the record of a plain task that is new.

-- The record of a task that is accepted under an entry now. `heads` is kept by the caller.
local function plain_new(heads, level, entry, fixed)
  local head = heads[level]
  if not head then
    head = { pack(HEAD, MAGIC, FORMAT, QUEUED, 1, 0, LEVEL_CODE[level], 0, 0, 0, 0, 0), level .. ':', NOBODY .. pack('>I6', now) }
    heads[level] = head
  end
  return head[1] .. char(#head[2] + #entry) .. head[2] .. entry .. head[3] .. fixed
end
