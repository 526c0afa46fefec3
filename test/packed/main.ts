// Packs all packages and serves them to npm and pnpm on this machine, as if they were published: what
// docs/get-started/from-a-clone.md describes.
//
//   npx -y pnpm@12 run registry
import { startRegistry } from './registry.ts'
import { packAll } from './workspace.ts'

const packed = await packAll()
const { url } = await startRegistry([...packed.values()], 4873)
console.log(`${packed.size} packages at ${url} until Ctrl-C. In another terminal:

  npm config set @osmosis:registry ${url}`)
