// Package deploy builds vmdisk's image and installs vmdisk in a cluster: whole, with the image, in the lab, and only the
// kinds and objects in an API server that tests started. It must not know what vmdisk does.
package deploy
