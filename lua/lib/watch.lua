-- watch: who looks after due times. The next one is told to one idle worker, `Q:watch`: its incarnation and the time it
-- was told. Another takes over when an earlier time has come up since; one without a free slot left hands it on.
do
  local WATCH_MS, MOST_WATCH_MS = '4000', 2000
  local holder, told = string.match(watched or '', '^(%S+) (%d*)$')
  local takes_over = woken or not holder or holder == inc or (next_due and (told == '' or next_due < tonumber(told)))
  if #handed >= want then
    if holder == inc then
      call('DEL', Q .. 'watch')
    end
    ledger.wake = ledger.wake or (next_due ~= nil and takes_over)
  elseif takes_over then
    call('SET', Q .. 'watch', inc .. ' ' .. (next_due and int(next_due) or ''), 'PX', WATCH_MS)
    reply[4] = next_due and math.max(0, math.min(next_due - now, MOST_WATCH_MS)) or -1
  end
end
