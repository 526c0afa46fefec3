// Writes the built page into a file, e.g. node build/write-page.ts dist/page.html, or else prints it.
import { writeFile } from 'node:fs/promises'

import { buildPage } from './build-page.ts'

const [file] = process.argv.slice(2)
const page = await buildPage()
if (file === undefined) process.stdout.write(page)
else await writeFile(file, page)
