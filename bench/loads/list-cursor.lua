-- Pages of 20 at random cursors, no two alike.
local requests = require("requests")

function prepare()
  return requests.list_after_cursor()
end
