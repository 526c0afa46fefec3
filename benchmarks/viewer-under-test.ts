// A viewer in a process of its own, so that its memory is its own: node viewer-under-test.ts <folder>
import { startViewer } from '@osmosis/viewer'

const viewer = await startViewer({ root: process.argv[2] ?? '' })
process.send?.({ url: viewer.url })
process.on('message', () => process.send?.({ rss: process.memoryUsage().rss }))
