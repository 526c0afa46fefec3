// A viewer in a process of its own, so that its memory is its own: node viewer-under-test.ts <folder>
import { setFlagsFromString } from 'node:v8'

import { startViewer } from '@osmosis/viewer'

// As `osmosis eval view` does.
setFlagsFromString('--semi-space-growth-factor=1')
const viewer = await startViewer({ root: process.argv[2] ?? '' })
process.send?.({ url: viewer.url })
process.on('message', () => process.send?.({ rss: process.memoryUsage().rss }))
